package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// nothingIsLeft checks that no stream and no object store has anything of a job.
func (r *replica) nothingIsLeft(n subject.JobName) {
	r.t.Helper()
	if _, err := r.o.Log.Get(r.t.Context(), n); !errors.Is(err, joblog.ErrNotFound) {
		r.t.Errorf("the log still has %s: %v", n.ID, err)
	}
	names := r.o.Broker.Names()
	for stream, pattern := range map[string]string{
		names.Tasks(): names.Done(n.Kind, n.Tenant, "completed", n.ID), names.Chunks(): names.Chunk(n.Tenant, n.ID),
		names.Work(): names.WorkAnyRoute(n.Kind, n.Tenant, n.ID),
	} {
		if m, err := r.o.Broker.Last(r.t.Context(), stream, pattern); !errors.Is(err, broker.ErrNoMessage) {
			r.t.Errorf("%s still has message %d of %s: %v", stream, m.Seq, n.ID, err)
		}
	}
	r.stored(n.ID, 0)
}

// withBlocks ends a chat whose long block is stored. It tries several chats, because a chat leaves
// out a block that the broker did not confirm in time.
func (r *replica) withBlocks(chat string) joblog.Entry {
	r.t.Helper()
	for i := range 5 {
		e := r.admit(subject.Chat, fmt.Sprintf("other-%d", i), chat)
		r.end(e.Name())
		if len(r.bodies(e.Job.GetId()+"-chunk")) == 1 {
			return e
		}
	}
	r.t.Fatal("the long block of no chat is stored")
	return joblog.Entry{}
}

// TestErase checks that nothing is left of a chat with a long reply and long blocks or of an
// archived video, and that other jobs stay.
func TestErase(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		r := newReplica(t, open(t), up, func(c *config.Config) {
			for i := range c.Routes {
				c.Routes[i].Archive = c.Routes[i].Kind == config.KindVideo
			}
			u := c.Upstreams[config.SandboxUpstream]
			u.PrivateResults = true
			c.Upstreams[config.SandboxUpstream] = u
		}).start()
		chat := fmt.Sprintf(`{"model":"sandbox-chat:big_chunk_bytes=%d","stream":true,"messages":[{"role":"user","content":"%s"}]}`, 600<<10, strings.Repeat("hello ", 60<<10))
		other := r.withBlocks(chat)
		for _, e := range []joblog.Entry{r.admit(subject.Video, "v", large("v")), r.admit(subject.Chat, "c", chat)} {
			n := e.Name()
			if end := r.end(n); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Fatalf("ended %v", end.Job.GetError())
			}
			// Bodies of holders that died before they wrote an event.
			for _, prefix := range []string{publisher.RequestBody(n.ID), publisher.CopyBody(n.ID, 0), publisher.ReplyBody(n.ID)} {
				if _, err := r.o.Bodies.Put(t.Context(), "acme", prefix, []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Erase(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			r.nothingIsLeft(n)
			if err := r.Erase(t.Context(), n); !errors.Is(err, joblog.ErrNotFound) {
				t.Errorf("erased twice: %v", err)
			}
		}
		r.stored(other.Job.GetId()+"-reply", 1)
		r.stored(other.Job.GetId()+"-chunk", 1)
		if _, err := r.o.Broker.Last(t.Context(), r.o.Broker.Names().Chunks(), r.o.Broker.Names().Chunk("acme", other.Job.GetId())); err != nil {
			t.Errorf("the chunks of another chat: %v", err)
		}
	})
}

// TestAnErasureAsksForNoOtherJobsNames checks that an erasure lists only its job's bodies. Listing
// all bodies of a large tenant takes too long.
func TestAnErasureAsksForNoOtherJobsNames(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := newReplica(t, b, newSandbox(t), keepRequests).start()
	for _, e := range []joblog.Entry{
		r.admit(subject.Video, "v", videoBody), r.admit(subject.Chat, "c", `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`),
	} {
		n := e.Name()
		r.end(n)
		bucket := b.Names().Bodies(n.Tenant)
		asked, err := b.Conn().SubscribeSync("$JS.API.STREAM.INFO.OBJ_" + bucket)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Erase(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if err := b.Conn().Flush(); err != nil { // delivers the requests
			t.Fatal(err)
		}
		filters := 0
		for m, err := asked.NextMsg(0); err == nil; m, err = asked.NextMsg(0) {
			var request struct {
				Filter string `json:"subjects_filter"`
			}
			if len(m.Data) > 0 {
				if err := json.Unmarshal(m.Data, &request); err != nil {
					t.Fatal(err)
				}
			}
			if request.Filter == "" {
				continue
			}
			if filters++; request.Filter != "$O."+bucket+".C."+n.ID+".>" {
				t.Errorf("of a %s, names are asked for on %s", n.Kind, request.Filter)
			}
		}
		if filters == 0 {
			t.Errorf("of a %s, no names are asked for", n.Kind)
		}
		if err := asked.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnErasureLeavesALaterJob checks that a slow second erasure spares a later job with the same
// request id.
func TestAnErasureLeavesALaterJob(t *testing.T) {
	t.Parallel()
	for kind, body := range map[subject.Kind]string{
		subject.Video: videoBody,
		subject.Chat:  `{"model":"sandbox-chat","stream":true,"messages":[{"role":"user","content":"hello"}]}`,
	} {
		r := newReplica(t, brokertest.Single(t), newSandbox(t)).start()
		old := r.end(r.admit(kind, "v", body).Name())
		n := old.Name()
		if err := r.Erase(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		later := r.admit(kind, "v", body)
		if _, err := r.o.Bodies.Put(t.Context(), "acme", publisher.RequestBody(n.ID), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := r.Eraser.Erase(t.Context(), old); !errors.Is(err, joblog.ErrNotFound) { // read the job before the first erasure ended
			t.Errorf("the second erasure: %v", err)
		}
		if e, err := r.o.Log.Get(t.Context(), n); err != nil || !e.Terminal() || !joblog.SameJob(later, e) {
			t.Errorf("the later job: %v, %v", e.Job, err)
		}
		r.stored(n.ID, 1)
		if _, err := r.o.Broker.Last(t.Context(), r.o.Broker.Names().Chunks(), r.o.Broker.Names().Chunk("acme", n.ID)); kind == subject.Chat && err != nil {
			t.Errorf("the chunks of the later chat: %v", err)
		}
	}
}

func TestEraseIsRefused(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	waits := r.admit(subject.Video, "v", videoBody)
	if err := r.Erase(t.Context(), waits.Name()); errcode.CodeOf(err) != errcode.NotTerminal {
		t.Errorf("a job that waits: %v", err)
	}
	if _, err := r.o.Log.Get(t.Context(), waits.Name()); err != nil {
		t.Error(err)
	}
	id := subject.JobID(subject.Video, "acme", "x")
	for n, want := range map[subject.JobName]errcode.Code{
		{Kind: "audio", Tenant: "acme", ID: id}: errcode.InvalidRequest,
		{Kind: subject.Video, ID: id}:           errcode.InvalidRequest,
	} {
		if err := r.Erase(t.Context(), n); errcode.CodeOf(err) != want {
			t.Errorf("%v: %v", n, err)
		}
	}
	for _, n := range []subject.JobName{
		{Kind: subject.Video, Tenant: "acme", ID: id},
		{Kind: subject.Video, Tenant: "acme", ID: "video_*"},
		{Kind: subject.Chat, Tenant: "acme", ID: id},
	} {
		if err := r.Erase(t.Context(), n); !errors.Is(err, joblog.ErrNotFound) {
			t.Errorf("%v: %v", n, err)
		}
	}
}
