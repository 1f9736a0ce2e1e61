package natsacl_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
)

// TestTheServiceWorks proves that the service's user has every permission that the service needs,
// and no other.
func TestTheServiceWorks(t *testing.T) {
	t.Parallel()
	n := start(t, deploy(t, local))
	spy := n.connect(t, witness+"GENBUS")
	published := &subjects{}
	// Not ">": if a client subscribes to all inboxes, the server delivers jobs to pull requests of
	// lost connections (ADR 18).
	for _, subj := range []string{"genbus.>", "$JS.>", "$O.>"} {
		if _, err := spy.Subscribe(subj, published.add); err != nil {
			t.Fatal(err)
		}
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	r := run(t, "", n)
	n.provision(t, local, 1)

	var listened []string
	t.Run("videos", func(t *testing.T) { r.videos(t) })
	t.Run("chats", func(t *testing.T) { listened = r.chats(t) })
	t.Run("requests", func(t *testing.T) { r.requests(t) })
	t.Run("large bodies", func(t *testing.T) { r.largeBodies(t) })
	t.Run("taking a job back", func(t *testing.T) { r.takesBack(t) })
	t.Run("dead letters", func(t *testing.T) { r.deadLetters(t) })
	t.Run("an operator", func(t *testing.T) { r.operated(t) })
	t.Run("the service of requests", func(t *testing.T) { r.asked(t) })
	t.Run("after trouble", func(t *testing.T) { r.recovers(t) })
	r.end()

	if err := spy.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	r.needsAll(published.all(), listened)
}

// videos creates videos by the inbox, by NATS request and over HTTP.
func (r *running) videos(t *testing.T) {
	js := stream(t, r.connect(t, local+"-publisher"))
	ask := r.connect(t, local+"-publisher")
	read := stream(t, r.connect(t, local+"-subscriber"))
	m := message(names.Request("video", local), `{"model":"sandbox-video","prompt":"a cat"}`, []string{"content-type", "application/json", "genbus-request-id", "by-inbox"})
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	// Apart from Nats-Msg-Id, the request ID, JetStream headers have no effect, because no stream stores this request.
	id := r.call(ask, "video", `{"model":"sandbox-video","prompt":"a cat"}`, "Nats-Rollup", "all", "Nats-Msg-Id", "x", "Nats-Expected-Last-Sequence", "999")
	r.completed(read, id)
	r.completed(read, r.create(`{"model":"sandbox-video","prompt":"a cat"}`))
	r.read(read, "genbus.done.video.default.completed.*", 3)
}

// chats follows a chat over SSE. It returns the service's subscriptions before the upstream
// answers.
func (r *running) chats(t *testing.T) []string {
	followed := make(chan struct{})
	answer := sync.OnceFunc(func() { close(followed) })
	defer r.up.SetBehaviour(nil)
	defer answer()
	r.up.SetBehaviour(func(*http.Request, []byte) *sandbox.Behaviour { <-followed; return nil })
	const body = `{"model":"sandbox-chat:chunks=300","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	end := make(chan string, 1)
	go func() {
		_, data := r.fetch(http.MethodPost, "/v1/chat/completions", body, "Idempotency-Key", "chat-1")
		end <- string(data)
	}()
	var listened []string
	await(t, "a follower's subscription", func() error {
		listened = r.subscriptions(t, "service")
		if !slices.ContainsFunc(listened, func(s string) bool { return strings.HasPrefix(s, "genbus.live.chunk.") }) {
			return errors.New("there is none")
		}
		return nil
	})
	answer()
	if all := <-end; !strings.HasSuffix(strings.TrimSpace(all), "data: [DONE]") {
		t.Errorf("the chat ended with %s", all)
	}
	return listened
}

// requests reads, lists, cancels and downloads jobs by NATS request. The download has several
// replies.
func (r *running) requests(t *testing.T) {
	nc, read := r.connect(t, local+"-app"), stream(t, r.connect(t, local+"-subscriber"))
	id := r.call(nc, "video", `{"model":"sandbox-video","prompt":"a cat"}`)
	r.completed(read, id)
	for _, subj := range requests("video", local)[1:] {
		inbox, err := nc.SubscribeSync(nc.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		m := message(subj, `{"id":"`+id+`"}`, []string{"content-type", "application/json"})
		if subj == names.List("video", local) || subj == names.Models(local) {
			m.Data = nil
		}
		m.Reply = inbox.Subject
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		replies := []string{"one"}
		if subj == names.Content(local) {
			replies = []string{"content-range", "genbus-end"}
		}
		for _, want := range replies {
			reply, err := inbox.NextMsg(patience)
			if err != nil || reply.Header.Get("genbus-error-code") != "" || want != "one" && reply.Header.Get(want) == "" {
				t.Errorf("%s: %v, %+v", subj, err, reply)
			}
		}
	}
}

// largeBodies creates and erases a video whose body goes through the object store.
func (r *running) largeBodies(t *testing.T) {
	read := stream(t, r.connect(t, local+"-subscriber"))
	picture := base64.StdEncoding.EncodeToString(make([]byte, 300<<10))
	id := r.create(`{"model":"archived","prompt":"a cat","image":"` + picture + `"}`)
	r.completed(read, id)
	if status, data := r.fetch(http.MethodGet, "/v1/videos/"+id+"/content", ""); status != http.StatusOK || len(data) == 0 {
		t.Errorf("content: %d, %d bytes", status, len(data))
	}
	if status, answer := r.http(http.MethodDelete, "/v1/videos/"+id, ""); status != http.StatusOK {
		t.Errorf("erase: %d %v", status, answer)
	}
	r.stored(t)
}

// stored sends uploaded requests by the inbox and by NATS request, and waits until the service has
// removed the uploads.
func (r *running) stored(t *testing.T) {
	mine := r.connect(t, witness+"GENBUS")
	for _, send := range []func(subj string, data []byte) error{
		func(subj string, data []byte) error {
			_, err := stream(t, mine).Publish(t.Context(), subj, data)
			return err
		},
		func(_ string, data []byte) error {
			reply, err := r.connect(t, local+"-publisher").Request(names.Call("video", local), data, patience)
			if err == nil && reply.Header.Get("genbus-job-id") == "" {
				err = fmt.Errorf("refused: %v", reply.Header)
			}
			return err
		},
	} {
		ref := brokertest.Upload(t, stream(t, mine), local, "a", &genbusv1.VideoRequest{
			Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(`{"model":"sandbox-video","prompt":"a cat"}`)},
		})
		data, err := proto.Marshal(&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}})
		if err == nil {
			err = send(names.Request("video", local), data)
		}
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the upload to be removed", func() error {
			if left := brokertest.Uploads(t, stream(t, mine), local); len(left) > 0 {
				return fmt.Errorf("there is %v", left)
			}
			return nil
		})
	}
}

// takesBack erases jobs behind another one, both dispatched ones and ones in the backlog.
func (r *running) takesBack(t *testing.T) {
	first := r.create(`{"model":"slow","prompt":"a cat"}`)
	await(t, "the only place of the route", func() error {
		_, data := r.fetch(http.MethodGet, "/genbus/v1/videos/"+first, "")
		if !strings.Contains(string(data), `"upstream_task_id":`) {
			return fmt.Errorf("is free: %s", data)
		}
		return nil
	})
	var waiting []string
	for range 4 {
		waiting = append(waiting, r.create(`{"model":"slow","prompt":"a cat"}`))
	}
	for _, id := range waiting {
		if status, answer := r.http(http.MethodDelete, "/v1/videos/"+id, ""); status != http.StatusOK {
			t.Errorf("erase: %d %v", status, answer)
		}
	}
	if status, answer := r.http(http.MethodPost, "/genbus/v1/videos/"+first+"/cancel", "{}"); status != http.StatusOK {
		t.Errorf("cancel: %d %v", status, answer)
	}
}

// deadLetters causes two dead letters: an invalid request and a job with an unknown outcome.
func (r *running) deadLetters(t *testing.T) {
	js := stream(t, r.connect(t, local+"-publisher"))
	if _, err := js.Publish(t.Context(), names.Request("video", local), []byte("no request")); err != nil {
		t.Fatal(err)
	}
	r.create(`{"model":"cut-off","prompt":"a cat"}`)
	operator := stream(t, r.connect(t, "administrator"))
	for _, name := range []string{names.Dead(), names.Rejected()} {
		await(t, "a dead letter in "+name, func() error {
			s, err := operator.Stream(t.Context(), name)
			if err == nil && s.CachedInfo().State.Msgs == 0 {
				err = errors.New("there is none")
			}
			return err
		})
	}
}

// operated calls the operator's gRPC methods.
func (r *running) operated(t *testing.T) {
	conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // every answer was read
	ctx, op := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+operatorKey), genbusv1grpc.NewOperatorServiceClient(conn)
	letters, err := op.ListDeadLetters(ctx, &genbusv1.ListDeadLettersRequest{})
	if err != nil || len(letters.GetLetters()) != 2 || letters.GetLetters()[0].GetRejected() || !letters.GetLetters()[1].GetRejected() {
		t.Fatalf("dead letters: %v, %v", letters, err)
	}
	for _, l := range letters.GetLetters() {
		if _, err := op.DropDeadLetter(ctx, &genbusv1.DropDeadLetterRequest{Sequence: l.GetSequence()}); err != nil {
			t.Error(err)
		}
	}
	for _, try := range []func() error{
		func() error {
			_, err := op.PauseRoute(ctx, &genbusv1.PauseRouteRequest{Kind: "video", Name: "slow"})
			return err
		},
		func() error {
			_, err := op.ResumeRoute(ctx, &genbusv1.ResumeRouteRequest{Kind: "video", Name: "slow"})
			return err
		},
		func() error {
			m := &genbusv1.DropDeadLettersRequest{Filter: &genbusv1.DeadLetterFilter{Code: "none"}, DryRun: true}
			counted, err := op.DropDeadLetters(ctx, m)
			if err != nil {
				return err
			}
			p, err := counted.Recv()
			if err != nil {
				return err
			}
			m.DryRun, m.Token = false, p.GetToken()
			run, err := op.DropDeadLetters(ctx, m)
			for err == nil && !p.GetEnded() {
				p, err = run.Recv()
			}
			return err
		},
		func() error { _, err := op.ListRoutes(ctx, &genbusv1.ListRoutesRequest{}); return err },
		func() error {
			id := r.call(r.connect(t, local+"-publisher"), "chat", `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`)
			_, err := op.CancelJob(ctx, &genbusv1.CancelJobRequest{Kind: "chat", Tenant: local, Id: id})
			return err
		},
		func() error {
			id := r.call(r.connect(t, local+"-publisher"), "chat", `{"model":"sandbox-chat","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
			await(t, "the end of "+id, func() error {
				_, err := op.EraseJob(ctx, &genbusv1.EraseJobRequest{Kind: "chat", Tenant: local, Id: id})
				return err
			})
			return nil
		},
	} {
		if err := try(); err != nil {
			t.Error(err)
		}
	}
}

// asked sends the requests of nats micro.
func (r *running) asked(t *testing.T) {
	nc := r.connect(t, "administrator")
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		for _, subj := range []string{"$SRV." + verb, "$SRV." + verb + ".genbus"} {
			if _, err := nc.Request(subj, nil, patience); err != nil {
				t.Errorf("%s: %v", subj, err)
			}
		}
	}
}

// recovers disconnects the service, deletes the consumer of its job index, and waits until it has
// replaced both.
func (r *running) recovers(t *testing.T) {
	js := stream(t, r.connect(t, "administrator"))
	s, err := js.Stream(t.Context(), names.Tasks())
	if err != nil {
		t.Fatal(err)
	}
	list := func() (found string) {
		for name := range s.ConsumerNames(t.Context()).Name() {
			if name != local {
				found = name
			}
		}
		return found
	}
	was := r.connections(t, "service")
	if err := r.DisconnectClientByID(was[0].Cid); err != nil {
		t.Fatal(err)
	}
	await(t, "another connection", func() error {
		if now := r.connections(t, "service"); len(now) != 1 || now[0].Cid == was[0].Cid {
			return fmt.Errorf("there is %v", now)
		}
		return nil
	})
	var first string // retry, because the service may replace its consumer at the same time
	await(t, "a consumer of the list to be deleted", func() error {
		first = list()
		return js.DeleteConsumer(t.Context(), names.Tasks(), first)
	})
	await(t, "another consumer of the list", func() error {
		if now := list(); now == "" || now == first {
			return fmt.Errorf("there is %q", now)
		}
		return nil
	})
	r.videos(t)
}

// TestTheServiceWorksOnThreeNodes proves that the service works on a cluster with three replicas of
// each stream.
func TestTheServiceWorksOnThreeNodes(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, deploy(t, local))
	r := run(t, "", nodes...)
	nodes[0].provision(t, local, 3)
	r.videos(t)
	r.chats(t)
	r.largeBodies(t)
	r.deadLetters(t)
	r.end()
}
