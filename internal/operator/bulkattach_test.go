package operator

import (
	"fmt"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// submitted returns the i-th dead letter of a submitted video.
func submitted(i int) *genbusv1.DeadLetter {
	l := poisoned(i)
	l.Upstream, l.UpstreamTaskId = "sandbox", fmt.Sprint("task", i)
	return l
}

func attachAll(sequences ...uint64) *genbusv1.AttachUpstreamTasksRequest {
	m := &genbusv1.AttachUpstreamTasksRequest{DryRun: true}
	for _, seq := range sequences {
		m.Tasks = append(m.Tasks, &genbusv1.LetterTask{Sequence: seq})
	}
	return m
}

// TestDeadLettersThatAreNotThereAreNotAttached checks that a dry run reports missing dead letters,
// and that the run does not attach ones stored later, which may belong to other jobs.
func TestDeadLettersThatAreNotThereAreNotAttached(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	first, dropped := store(t, r, submitted(1), submitted(1).GetId()), store(t, r, submitted(2), submitted(2).GetId())
	if err := r.Drop(t.Context(), dropped); err != nil {
		t.Fatal(err)
	}
	m := attachAll(first, dropped, dropped+1, subject.FirstRejected)
	counted := r.count(r.bulk().AttachUpstreamTasks(m))
	if counted.GetTotal() != 1 || counted.GetFailedByCode()["letter_not_found"] != 3 || counted.GetFailures()[0].GetLetter() != dropped {
		t.Errorf("%v", counted)
	}
	if seq := store(t, r, submitted(3), submitted(3).GetId()); seq != dropped+1 {
		t.Fatalf("the later dead letter is %d", seq)
	}
	m.DryRun, m.Token = false, counted.GetToken()
	if p := r.do(r.bulk().AttachUpstreamTasks(m)); p.GetChanged() != 1 || p.GetFailedByCode()["letter_not_found"] != 3 {
		t.Errorf("%v", p)
	}
	if jobs := r.allJobs(); len(jobs) != 1 || jobs[0].GetUpstreamTaskId() != "task1" {
		t.Errorf("%v", jobs)
	}
}

// TestDeadLettersOfAnotherStreamAreNotAttached checks that a run attaches nothing if the stream was
// recreated after the dry run.
func TestDeadLettersOfAnotherStreamAreNotAttached(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := newReplica(t, b, newSandbox(t))
	first := store(t, r, submitted(1), submitted(1).GetId())
	m := attachAll(first)
	m.Token = r.count(r.bulk().AttachUpstreamTasks(m)).GetToken()
	if err := b.JetStream().DeleteStream(t.Context(), b.Names().Dead()); err != nil {
		t.Fatal(err)
	}
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := submitted(2)
	other.Tenant, other.Id = "globex", subject.JobID(subject.Video, "globex", "x")
	if seq := store(t, r, other, other.GetId()); seq != first {
		t.Fatalf("the dead letter of globex is %d, not %d", seq, first)
	}
	m.DryRun = false
	if p := r.do(r.bulk().AttachUpstreamTasks(m)); p.GetFailedByCode()["letter_not_found"] != 1 || p.GetChanged() != 0 {
		t.Errorf("%v", p)
	}
	if jobs := r.allJobs(); len(jobs) != 0 {
		t.Errorf("%v", jobs)
	}
}
