package consumer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/streamread"
	"github.com/genbus/genbus/internal/subject"
)

// stallingHolder takes the next work item of a route without ever extending it, and gets no
// notifications. released is closed when it has dropped the job.
func stallingHolder(t testing.TB, r *replica, id routeID) (released chan struct{}) {
	t.Helper()
	for _, route := range r.cfg.Routes {
		if idOf(route) != id {
			continue
		}
		cons, err := r.ensureRoute(t.Context(), route, r.durable)
		if err != nil {
			t.Fatal(err)
		}
		take := r.take(id, r.Metrics.Route(id.kind, id.name))
		released = make(chan struct{})
		take(brokertest.Next(t, cons), sync.OnceFunc(func() { close(released) }))
		return released
	}
	t.Fatalf("there is no route %v", id)
	return nil
}

// await waits for a value, or until the channel is closed.
func await[T any](t testing.TB, what string, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %s", what, patience)
	}
}

// intact checks a stored body that an event names, and returns it.
func intact(t testing.TB, r *replica, ref *genbusv1.BlobRef) []byte {
	t.Helper()
	data, err := r.Bodies.Get(t.Context(), publisher.BodyOf(ref))
	if err != nil {
		t.Errorf("%s, which an event names: %v", ref.GetName(), err)
	}
	return data
}

// onlyObjects waits until the tenant's object store has exactly these objects.
func onlyObjects(t testing.TB, b *broker.Broker, refs ...*genbusv1.BlobRef) {
	t.Helper()
	var want []string
	for _, ref := range refs {
		want = append(want, ref.GetName())
	}
	slices.Sort(want)
	for begin := time.Now(); ; {
		got := copies(t, b)
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		if broker.Wait(t.Context(), 10*time.Millisecond) != nil || time.Since(begin) > patience {
			t.Fatalf("the object store has %v, want %v", got, want)
		}
	}
}

// admit sends a request until it is accepted.
func admit(t testing.TB, r *replica, kind subject.Kind, requestID string, raw []byte) joblog.Entry {
	t.Helper()
	for begin := time.Now(); ; {
		e, err := r.Admission.Admit(t.Context(), admission.Request{Kind: kind, Tenant: "acme", RequestID: requestID, Body: body.Parse(raw)})
		if err == nil {
			return e
		}
		again := errcode.From(err).Meaning().Retry || errcode.CodeOf(err) == errcode.AcceptanceUnknown
		if !again || broker.Wait(t.Context(), 100*time.Millisecond) != nil || time.Since(begin) > patience {
			t.Error(err)
			return e
		}
	}
}

// TestALateHolderLeavesTheReply proves that a late holder leaves the reply of the terminal event
// intact and removes its own.
func TestALateHolderLeavesTheReply(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		var calls atomic.Int64
		url := scripted(t, map[string]http.HandlerFunc{"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
			text := "in time"
			if calls.Add(1) == 1 {
				text = "too late"
				close(begun)
				<-goOn
			}
			respond(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`,
				strings.Repeat(text, 100<<10))(w, r)
		}})
		late, route := idleReplica(t, open(t), testConfig(t, url)), routeID{subject.Chat, config.SandboxChatRoute}
		e := admit(t, late, subject.Chat, "c", []byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`))
		released := stallingHolder(t, late, route)
		await(t, "the first call", begun)

		other := newReplica(t, open(t), testConfig(t, url))
		end := last(follow(t, other.log, e.Job.GetId()))
		doneOnce(t, other.Broker, end)
		close(goOn)
		await(t, "the late holder", released)

		chat, _ := end.Job.(*genbusv1.Chat)
		if chat.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || chat.GetReplyRef() == nil {
			t.Fatalf("ended %v", chat)
		}
		if !bytes.Contains(intact(t, other, chat.GetReplyRef()), []byte("in time")) {
			t.Error("the reply is not the one of the end")
		}
		onlyObjects(t, other.Broker, chat.GetReplyRef())
	})
}

// TestALateHolderLeavesTheCopies proves the same for the copies of a video's results and long
// metadata.
func TestALateHolderLeavesTheCopies(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		var reads atomic.Int64
		metadata := strings.Repeat("x", 2*(64<<10))
		url := scripted(t, map[string]http.HandlerFunc{
			createPath: acceptsByPrompt,
			pollPath: func(w http.ResponseWriter, r *http.Request) {
				respond(`{"task_id":%q,"status":"completed","url":"http://%s/file/v","metadata":{"long":%q}}`, r.PathValue("id"), r.Host, metadata)(w, r)
			},
			filePath: func(w http.ResponseWriter, _ *http.Request) {
				video := bytes.Repeat([]byte("a"), 1<<20)
				w.Header().Set("Content-Type", "video/mp4")
				if reads.Add(1) > 1 {
					_, _ = w.Write(bytes.Repeat([]byte("b"), 1<<20))
					return
				}
				_, _ = w.Write(video[:600<<10])
				_ = http.NewResponseController(w).Flush()
				close(begun)
				<-goOn
				_, _ = w.Write(video[600<<10:])
			},
		})
		cfg := func() *config.Config { return testConfig(t, url, videoRoutes(archives)) }
		late, route := idleReplica(t, open(t), cfg()), routeID{subject.Video, config.SandboxVideoRoute}
		e := admit(t, late, subject.Video, "v", []byte(`{"model":"sandbox-video","prompt":"cat"}`))
		released := stallingHolder(t, late, route)
		await(t, "the first copy", begun)

		other := newReplica(t, open(t), cfg())
		end := last(follow(t, other.log, e.Job.GetId()))
		doneOnce(t, other.Broker, end)
		close(goOn)
		await(t, "the late holder", released)

		files := videoOf(end).GetArchive().GetFiles()
		if len(files) != 2 {
			t.Fatalf("ended with %v", videoOf(end))
		}
		for _, ref := range files {
			intact(t, other, ref)
		}
		onlyObjects(t, other.Broker, files...)
	})
}

// TestALateHolderOfAnErasedChat proves that a late holder restores nothing of a chat that was
// completed and erased.
func TestALateHolderOfAnErasedChat(t *testing.T) {
	t.Parallel()
	b, begun, goOn := brokertest.Single(t), make(chan struct{}), make(chan struct{})
	url := scripted(t, map[string]http.HandlerFunc{"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-goOn
		respond(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`,
			strings.Repeat("too late", 100<<10))(w, r)
	}})
	late := idleReplica(t, b, testConfig(t, url))
	id := admit(t, late, subject.Chat, "c", []byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`)).Job.GetId()
	released := stallingHolder(t, late, routeID{subject.Chat, config.SandboxChatRoute})
	await(t, "the call", begun)
	purge(t, b, b.Names().Work(), b.Names().WorkAnyRoute(subject.Chat, "acme", id))
	purge(t, b, b.Names().Tasks(), b.Names().Task(subject.Chat, "acme", id))
	close(goOn)
	await(t, "the late holder", released)
	onlyObjects(t, b)
	if _, err := late.log.Get(t.Context(), subject.JobName{Kind: subject.Chat, Tenant: "acme", ID: id}); !errors.Is(err, joblog.ErrNotFound) {
		t.Errorf("the erased chat is back: %v", err)
	}
}

// infoOf returns the subject of a stored body's info.
func infoOf(ref *genbusv1.BlobRef) string {
	return "$O." + ref.GetBucket() + ".M." + base64.URLEncoding.EncodeToString([]byte(ref.GetName()))
}

// TestABodyThatIsMissedOnce proves that a job completes in its first attempt although its body was
// missing at first.
func TestABodyThatIsMissedOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range subject.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			e := admit(t, idleReplica(t, b, testConfig(t, up.URL())), kind, "r", largeRequest(kind))
			input := e.Job.GetExecution().GetInput()
			stream := "OBJ_" + input.GetBucket()
			info, err := b.Last(t.Context(), stream, infoOf(input))
			if err != nil {
				t.Fatal(err)
			}
			purge(t, b, stream, infoOf(input))
			reads := make(chan *nats.Msg, 100)
			sub, err := b.Conn().ChanSubscribe(streamread.Subject(stream), reads)
			if err != nil {
				t.Fatal(err)
			}
			r := newReplica(t, b, testConfig(t, up.URL()))
			for range 2 {
				await(t, "a read of the body", reads)
			}
			if err := sub.Unsubscribe(); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Publish(t.Context(), &nats.Msg{Subject: info.Subject, Data: info.Data}); err != nil {
				t.Fatal(err)
			}
			end := last(follow(t, r.log, e.Job.GetId()))
			if x := end.Job.GetExecution(); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || x.GetAttempt() != 1 {
				t.Errorf("ended %v after %d attempts", end.Job.GetError(), x.GetAttempt())
			}
			doneOnce(t, b, end)
		})
	}
}

// TestABodyThatIsLost proves that a job without its body ends and never reaches the upstream.
func TestABodyThatIsLost(t *testing.T) {
	t.Parallel()
	for _, kind := range subject.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			r := idleReplica(t, b, testConfig(t, up.URL()))
			e := admit(t, r, kind, "r", largeRequest(kind))
			if err := r.Bodies.Delete(t.Context(), publisher.BodyOf(e.Job.GetExecution().GetInput())); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			end := last(follow(t, newReplica(t, b, testConfig(t, up.URL())).log, e.Job.GetId()))
			if x := end.Job.GetExecution(); end.Job.GetError().GetCode() != string(errcode.InputLost) || x.GetAttempt() != 0 || time.Since(begin) < joblog.SecondLook {
				t.Errorf("ended %v after %d attempts and %s", end.Job.GetError(), x.GetAttempt(), time.Since(begin))
			}
			doneOnce(t, b, end)
			if n := up.Sandbox.Stats().Creates; n != 0 {
				t.Errorf("%d creates", n)
			}
		})
	}
}

// largeRequest returns a body that the object store takes in several chunks.
func largeRequest(kind subject.Kind) []byte {
	format := `{"model":"sandbox-video","prompt":"a cat","image":%q}`
	if kind == subject.Chat {
		format = `{"model":"sandbox-chat","messages":[{"role":"user","content":%q}]}`
	}
	return fmt.Appendf(nil, format, strings.Repeat("x", 3<<19))
}

// TestTwoSendsOfOneLargeRequest proves that two concurrent sends of one request do not remove each
// other's body.
func TestTwoSendsOfOneLargeRequest(t *testing.T) {
	t.Parallel()
	const requests, atOnce = 16, 4
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		patient := videoRoutes(func(r *config.Route) { r.AckWait, r.Timeouts.Create = patience, patience })
		replicas := []*replica{newReplica(t, open(t), testConfig(t, up.URL(), patient)), newReplica(t, open(t), testConfig(t, up.URL(), patient))}
		var lanes sync.WaitGroup
		for lane := range atOnce {
			lanes.Go(func() {
				for i := lane; i < requests; i += atOnce {
					kind, request := subject.Kinds[i%len(subject.Kinds)], fmt.Sprint("r", i)
					var sends sync.WaitGroup
					for _, r := range replicas {
						sends.Go(func() { admit(t, r, kind, request, largeRequest(kind)) })
					}
					sends.Wait()
				}
			})
		}
		lanes.Wait()
		for i := range requests {
			id := subject.JobID(subject.Kinds[i%len(subject.Kinds)], "acme", fmt.Sprint("request\x00r", i))
			if end := last(follow(t, replicas[0].log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("%s ended %v", id, end.Job.GetError())
			}
		}
	})
}
