package operator

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// submitted is the letter of a video that the sandbox has as a task.
func submitted(i int) *genbusv1.DeadLetter {
	l := poisoned(i)
	l.Upstream, l.UpstreamTaskId = "sandbox", fmt.Sprint("task", i)
	return l
}

func attachAll(sequences ...uint64) *genbusv1.OperationSpec {
	m := &genbusv1.AttachUpstreamTasks{}
	for _, seq := range sequences {
		m.Tasks = append(m.Tasks, &genbusv1.LetterTask{Sequence: seq})
	}
	return &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_AttachUpstreamTasks{AttachUpstreamTasks: m}}
}

// TestLaterLettersAreNotAttached: those that came after as_of, or are still to come, may be of
// another job than the operator meant.
func TestLaterLettersAreNotAttached(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	first := store(t, r, submitted(1), submitted(1).GetId())
	for field, m := range map[string]*genbusv1.StartOperationRequest{
		"spec.attach_upstream_tasks.tasks[0].sequence": {AsOf: timestamppb.New(time.Now().Add(-time.Hour)), Spec: attachAll(first)},
		"spec.attach_upstream_tasks.tasks[1].sequence": {Spec: attachAll(first, first+1)},
		"spec.attach_upstream_tasks.tasks[2].sequence": {Spec: attachAll(first, first+10, subject.FirstRejected)},
	} {
		_, err := r.operations().Plan(t.Context(), m)
		f := errcode.From(err)
		if f == nil || f.Code != errcode.InvalidRequest || f.Violations[len(f.Violations)-1].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestLettersOfAnotherStreamAreNotAttached: the stream is created again while the operation goes
// on, and its sequences are those of other tenants' letters.
func TestLettersOfAnotherStreamAreNotAttached(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := newReplica(t, b, newSandbox(t))
	first := store(t, r, submitted(1), submitted(1).GetId())
	op := r.plan(&genbusv1.StartOperationRequest{Id: "a", Spec: attachAll(first)})
	if err := b.JetStream().DeleteStream(t.Context(), b.Names().Dead()); err != nil {
		t.Fatal(err)
	}
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := submitted(2)
	other.Tenant, other.Id = "globex", subject.JobID(subject.Video, "globex", "x")
	if seq := store(t, r, other, other.GetId()); seq != first {
		t.Fatalf("the letter of globex is %d, not %d", seq, first)
	}
	if p := r.do(op); p.GetFailedByCode()["letter_not_found"] != 1 || p.GetChanged() != 0 {
		t.Errorf("%v", p)
	}
	if jobs := r.allJobs(); len(jobs) != 0 {
		t.Errorf("%v", jobs)
	}
}

// TestOnlyAnAttachedLetterIsGone: a letter that is not there has failed, unless the operation has
// made its job before a crash.
func TestOnlyAnAttachedLetterIsGone(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	dropped, mistyped := store(t, r, submitted(1), submitted(1).GetId()), store(t, r, submitted(2), submitted(2).GetId())
	attached := store(t, r, submitted(3), submitted(3).GetId())
	if err := r.Drop(t.Context(), mistyped); err != nil {
		t.Fatal(err)
	}
	op := r.plan(&genbusv1.StartOperationRequest{Id: "a", Spec: attachAll(dropped, mistyped, attached)})
	if err := r.Drop(t.Context(), dropped); err != nil {
		t.Fatal(err)
	}
	steps, _, err := r.operations().Steps(t.Context(), op, "")
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := steps[2].Do(t.Context()); err != nil || !changed {
		t.Fatalf("%t, %v", changed, err)
	}
	p := r.do(op)
	if p.GetDone() != 3 || p.GetChanged() != 0 || p.GetFailedByCode()["letter_not_found"] != 2 || p.GetFailures()[0].GetLetter() != dropped || p.GetFailures()[1].GetLetter() != mistyped {
		t.Errorf("%v", p)
	}
	if jobs := r.allJobs(); len(jobs) != 1 || jobs[0].GetUpstreamTaskId() != "task3" {
		t.Errorf("%v", jobs)
	}
	if repeated := r.plan(&genbusv1.StartOperationRequest{Id: "a", Spec: attachAll(dropped, mistyped, attached)}); repeated.GetTotal() != 3 {
		t.Errorf("a repeat of the start: %v", repeated)
	}
}
