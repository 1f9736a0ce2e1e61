package operator

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

func (r *replica) pages(q Query) (seqs []uint64, pages int) {
	r.t.Helper()
	for {
		page, err := r.List(r.t.Context(), q)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, l := range page.DeadLetters {
			seqs = append(seqs, l.GetSequence())
			if len(l.GetLetter().GetData()) != 0 {
				r.t.Errorf("dead letter %d is listed with its data", l.GetSequence())
			}
		}
		if pages++; page.Next == "" {
			return seqs, pages
		}
		q.Token = page.Next
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	want := map[string][]uint64{}
	for i := range 45 {
		kind, tenant, code := "video", fmt.Sprint("t", i%3), []string{"poisoned", "orphaned_submission"}[i%2]
		if i%5 == 0 {
			kind, tenant = "chat", "no legal name"
		}
		seq := store(t, r, &genbusv1.DeadLetter{Kind: kind, Tenant: tenant, Error: &genbusv1.TaskError{Code: code}, Data: []byte("secret")}, fmt.Sprint("x", i))
		for _, key := range []string{"all", kind, tenant, code} {
			want[key] = append(want[key], seq)
		}
	}
	for _, row := range []struct {
		q    Query
		want []uint64
	}{
		{Query{}, want["all"]},
		{Query{Size: 7}, want["all"]},
		{Query{Size: 100}, want["all"]},
		{Query{Kind: "chat"}, want["chat"]},
		{Query{Tenant: "t1", Size: 3}, want["t1"]},
		{Query{Tenant: subject.InvalidTenant}, want["no legal name"]},
		{Query{Code: "poisoned", Size: 2}, want["poisoned"]},
		{Query{Code: "nothing"}, nil},
		{Query{Kind: "video", Tenant: "nobody"}, nil},
	} {
		if got, _ := r.pages(row.q); !slices.Equal(got, row.want) {
			t.Errorf("%+v: got %v, want %v", row.q, got, row.want)
		}
	}
	if _, pages := r.pages(Query{Size: 9}); pages != 5 {
		t.Errorf("45 dead letters in pages of 9 are %d pages", pages)
	}
	for _, q := range []Query{{Kind: "audio"}, {Tenant: "a b"}, {Size: -1}, {Token: "x"}, {Token: "0"}} {
		_, err := r.List(t.Context(), q)
		if code := errcode.CodeOf(err); code != errcode.InvalidRequest && code != errcode.InvalidPageToken {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestListIsBounded checks that one call answers and reads a bounded amount, and the next one
// continues.
func TestListIsBounded(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	header := []*genbusv1.Header{{Key: "x", Values: []string{strings.Repeat("y", 400<<10)}}}
	for i := range 9 {
		store(t, r, &genbusv1.DeadLetter{Kind: "video", Tenant: "t", Error: &genbusv1.TaskError{Code: "big"}, Headers: header}, fmt.Sprint("x", i))
	}
	page, err := r.List(t.Context(), Query{Size: 100})
	if err != nil || len(page.DeadLetters) != 3 || page.Next == "" {
		t.Fatalf("%d dead letters of 400 KiB in one page, next %q, %v", len(page.DeadLetters), page.Next, err)
	}
	if all, _ := r.pages(Query{Size: 100}); len(all) != 9 {
		t.Errorf("%d dead letters over all pages", len(all))
	}
	for range maxScan {
		store(t, r, &genbusv1.DeadLetter{Kind: "video", Tenant: "t", Error: &genbusv1.TaskError{Code: "small"}}, "y")
	}
	last := store(t, r, &genbusv1.DeadLetter{Kind: "video", Tenant: "t", Error: &genbusv1.TaskError{Code: "last"}}, "z")
	page, err = r.List(t.Context(), Query{Code: "last"})
	if err != nil || len(page.DeadLetters) != 0 || page.Next == "" {
		t.Errorf("a page after %d dead letters has %d, next %q, %v", maxScan, len(page.DeadLetters), page.Next, err)
	}
	if all, pages := r.pages(Query{Code: "last"}); !slices.Equal(all, []uint64{last}) || pages != 2 {
		t.Errorf("found %v in %d pages", all, pages)
	}
}

// TestWhatIsNoDeadLetter checks that an invalid message can be listed and dropped, and does not
// hide later dead letters.
func TestWhatIsNoDeadLetter(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	m := msgOf(r.o.Broker.Names().DeadLetter(subject.Video, "t", "x"), []byte("\xff\xff"))
	ack, err := r.o.Broker.Publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	good := store(t, r, &genbusv1.DeadLetter{Kind: "video", Tenant: "t"}, "y")
	if all, _ := r.pages(Query{}); !slices.Equal(all, []uint64{ack.Seq, good}) {
		t.Errorf("listed %v", all)
	}
	if l, err := r.DeadLetter(t.Context(), ack.Seq); err != nil || l.GetLetter().GetError().GetMessage() == "" {
		t.Errorf("%v, %v", l, err)
	}
	for _, f := range []func() error{
		func() error { _, err := r.Redrive(t.Context(), ack.Seq); return err },
		func() error { _, err := r.Attach(t.Context(), ack.Seq, "x"); return err },
	} {
		if err := f(); errcode.CodeOf(err) != errcode.DeadLetterUnusable {
			t.Errorf("got %v", err)
		}
	}
	if err := r.Drop(t.Context(), ack.Seq); err != nil {
		t.Error(err)
	}
	r.isRemoved(ack.Seq)
}

// large returns a body for the object store.
func large(prompt string) string {
	return `{"model":"sandbox-video","prompt":"` + prompt + strings.Repeat(" cat", 100<<10) + `"}`
}

// TestADeadLetterHasItsOwnBody checks that a dead letter's body survives the erasure of its job, is
// redriven whole, and is removed with the dead letter.
func TestADeadLetterHasItsOwnBody(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		r := newReplica(t, open(t), up).start()
		body := large("a")
		l := r.unknownDeadLetter(up, "u", body)
		if err := r.Erase(t.Context(), videoName(l.GetLetter().GetId())); err != nil {
			t.Fatal(err)
		}
		whole, err := r.DeadLetter(t.Context(), l.GetSequence())
		if err != nil || string(whole.GetLetter().GetData()) != body || whole.GetDataSize() != uint64(len(body)) || whole.GetLetter().GetDataRef() != nil {
			t.Fatalf("after the erasure the dead letter has %d bytes, %v", len(whole.GetLetter().GetData()), err)
		}
		e, err := r.Redrive(t.Context(), l.GetSequence())
		if err != nil {
			t.Fatal(err)
		}
		if end := r.end(e.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("ended %v", end.Job.GetError())
		}
		input := e.Job.GetExecution().GetInput()
		if got, err := r.o.Bodies.Get(t.Context(), publisher.BodyOf(input)); err != nil || string(got) != body {
			t.Errorf("the new job's body has %d bytes, %v", len(got), err)
		}
		r.stored("dead-", 0)
	})
}

// stored checks how many stored bodies of acme have a name that starts with prefix.
func (r *replica) stored(prefix string, want int) {
	r.t.Helper()
	if names := r.bodies(prefix); len(names) != want {
		r.t.Errorf("%d bodies %s*: %v, want %d", len(names), prefix, names, want)
	}
}

// bodies returns the names of acme's existing bodies with the prefix.
func (r *replica) bodies(prefix string) (names []string) {
	r.t.Helper()
	store, err := r.o.Broker.JetStream().ObjectStore(r.t.Context(), r.o.Broker.Names().Bodies("acme"))
	if err != nil {
		r.t.Fatal(err)
	}
	list, _ := store.List(r.t.Context()) // an empty store is an error too
	for _, info := range list {
		if strings.HasPrefix(info.Name, prefix) {
			names = append(names, info.Name)
		}
	}
	return names
}

// TestDropLeavesTheBodyOfAJob checks that dropping a dead letter keeps a body that belongs to its
// job.
func TestDropLeavesTheBodyOfAJob(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, up)
	e := r.admit(subject.Video, "j", large("j"))
	input := e.Job.GetExecution().GetInput()
	ofJob := store(t, r, &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", Id: e.Job.GetId(), DataRef: input}, e.Job.GetId())
	if err := r.Drop(t.Context(), ofJob); err != nil {
		t.Fatal(err)
	}
	if got, err := r.o.Bodies.Get(t.Context(), publisher.BodyOf(input)); err != nil || len(got) == 0 {
		t.Errorf("the job's body is gone with the dead letter: %v", err)
	}
	if err := r.Drop(t.Context(), ofJob); errcode.CodeOf(err) != errcode.DeadLetterNotFound {
		t.Errorf("dropped twice: %v", err)
	}
}

// TestADeadLetterThatIsTooLongStaysWhereItIs checks that a dead letter keeps data_ref if its
// request is too long or lost.
func TestADeadLetterThatIsTooLongStaysWhereItIs(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	r.o.Config.Now().GRPC.MaxMessageBytes = 1 << 20
	ref, err := r.o.Bodies.Put(t.Context(), "acme", "dead-x", bytes.Repeat([]byte("x"), 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	for name, ref := range map[string]*genbusv1.BlobRef{"too long": publisher.BlobRef(ref), "gone": lostBody} {
		l, err := r.DeadLetter(t.Context(), store(t, r, &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", DataRef: ref}, "x"))
		if err != nil || len(l.GetLetter().GetData()) != 0 || l.GetLetter().GetDataRef() == nil || l.GetDataSize() != ref.GetSize() {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
}
