package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadNATS is the URL of an unreachable broker.
const deadNATS = "nats://127.0.0.1:1"

func newLoad(t *testing.T, web http.Handler, serve func(*grpc.Server)) *Load {
	t.Helper()
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rpc := grpc.NewServer()
	serve(rpc)
	go rpc.Serve(listener) //nolint:errcheck // it ends with Stop
	t.Cleanup(rpc.Stop)
	l, err := New(Options{
		Seed: 7, Replicas: []Replica{{Name: "0", HTTP: server.URL, GRPC: listener.Addr().String()}}, NATS: deadNATS,
		VideoModels: []string{"film"}, ChatModels: []string{"talk"}, Recorder: &Recorder{}, Patience: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func noRPC(*grpc.Server) {}

// with returns a client with a fixed wish.
func (l *Load) with(e entry, key string) *client {
	c := l.client(due{})
	c.wish = wish{name: "c", kind: subject.Video, tenant: c.tenant, entry: e, marker: "m", key: key}
	c.write(videoBody("film", "m", lengths{}, rand.New(rand.NewPCG(1, 1))))
	return c
}

func TestASeedSaysEverything(t *testing.T) {
	t.Parallel()
	l := newLoad(t, http.NotFoundHandler(), noRPC)
	seen, marks := map[entry]bool{}, map[string]bool{}
	for n := range 600 {
		w, again := l.client(due{n: n}).wish, l.client(due{n: n}).wish
		if !reflect.DeepEqual(w, again) {
			t.Fatalf("wish %d is two", n)
		}
		seen[w.entry], marks[w.marker] = true, true
		if check.MarkOf(w.body) != w.marker {
			t.Errorf("wish %d: %.200s has the mark %q", n, w.body, check.MarkOf(w.body))
		}
		if (w.repeat || w.conflict || w.rival != "") && w.key == "" || w.entry.op == check.OpInline && w.key != "" {
			t.Errorf("wish %d: %s %+v, repeat %t, conflict %t, rival %q", n, w.key, w.entry, w.repeat, w.conflict, w.rival)
		}
		if o := w.other(); o.sum == w.sum || o.key != w.key || check.MarkOf(o.body) != o.marker {
			t.Errorf("wish %d has the other body %.200s", n, o.body)
		}
	}
	for _, e := range slices.Concat(videoEntries, chatEntries) {
		if !seen[e] {
			t.Errorf("nobody asks by %v", e)
		}
	}
	if len(marks) != 600 {
		t.Errorf("%d marks", len(marks))
	}
}

// TestTypedIsTheBody proves that a request sent field by field has the same JSON as the generated
// body.
func TestTypedIsTheBody(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for _, long := range []lengths{{}, {request: 10, reply: 10}} {
		want := videoBody("film", "m", long, r)
		video, err := typedVideo(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := body.Video(&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: video}})
		sameJSON(t, want, got, err)
		want = chatBody("talk", "m", true, long, r)
		chat, err := typedChat(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err = body.Chat(&genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: chat}})
		sameJSON(t, want, got, err)
	}
}

func sameJSON(t *testing.T, want []byte, d body.Document, err error) {
	t.Helper()
	got := jsontext.Value(d.Bytes())
	if err = errors.Join(err, got.Canonicalize()); err != nil {
		t.Fatal(err)
	}
	if same := jsontext.Value(want); same.Canonicalize() != nil || !bytes.Equal(same, got) {
		t.Errorf("got %s\nwant %s", got, same)
	}
}

// TestShapes proves that the wishes of a burst have its shape.
func TestShapes(t *testing.T) {
	t.Parallel()
	l := newLoad(t, http.NotFoundHandler(), noRPC)
	stored, beyond := 0, 0
	for n := range 60 {
		for _, shape := range []Shape{Large, Duplicates, Plain} {
			w := l.client(due{firstBurst + n, shape}).wish
			long := len(w.input) > 0
			switch {
			case shape == Plain && (w.key == "" || w.follow != "" || w.reads || w.repeat || w.conflict || w.peeks || w.rival != "" || w.cancel != 0):
				t.Errorf("wish %d is not plain", n)
			case shape == Duplicates && long && w.entry.op != check.OpInline && (w.rival != "same" || w.key == "" || w.expires != 0):
				t.Errorf("wish %d has no duplicate", n)
			case w.stored && (!w.entry.natsEntry() || w.entry.form == asJSON):
				t.Errorf("wish %d is stored for %v", n, w.entry)
			case len(w.body) > 8<<20 && w.entry.natsEntry() && !w.stored:
				t.Errorf("wish %d is too large for a message", n)
			case long && len(w.body) < claimCheck:
				t.Errorf("wish %d has %d bytes", n, len(w.body))
			}
			if w.stored {
				stored++
			}
			if len(w.body) > 8<<20 {
				beyond++
			}
		}
	}
	if stored == 0 || beyond == 0 {
		t.Errorf("%d are stored, %d larger than any message", stored, beyond)
	}
}

// TestABurst proves that the wishes of a burst begin at once, whatever the rate, and that none
// begins after the end.
func TestABurst(t *testing.T) {
	t.Parallel()
	l := newLoad(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		errcode.New(errcode.InvalidRequest, "no").WriteHTTP(w)
	}), noRPC)
	l.o.Rate, l.o.Patience = 0.001, time.Second
	var run sync.WaitGroup
	run.Go(func() { l.Run(t.Context()) })
	l.Burst(t.Context(), 1, 5, Plain)
	l.Stop()
	run.Wait()
	l.Burst(t.Context(), 2, 5, Plain)
	clients := map[string]bool{}
	for _, call := range l.o.Recorder.Calls() {
		clients[call.Client] = true
	}
	if len(clients) != 5 || !clients[fmt.Sprint("c", firstBurst+maxBurst)] {
		t.Errorf("clients %v", slices.Collect(maps.Keys(clients)))
	}
}

// trouble answers first with an error, then not at all, then correctly.
func trouble(w http.ResponseWriter, n int32) {
	switch n {
	case 1:
		w.Header().Set("Retry-After", "0")
		errcode.New(errcode.ShuttingDown, "stopping").WriteHTTP(w)
	case 2:
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("Genbus-Job-Id", "video_1")
		fmt.Fprint(w, `{"id":"video_1","status":"queued"}`)
	}
}

func TestAWishIsRepeatedUnderItsKeyOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key  string
		want []string
	}{
		{"k", []string{"shutting_down", "EOF", ""}},
		{"", []string{"shutting_down", "EOF"}},
	} {
		var n atomic.Int32
		l := newLoad(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Idempotency-Key"); got != c.key || r.Header.Get("Genbus-Labels") != "mark=m" {
				t.Errorf("key %q, labels %q", got, r.Header.Get("Genbus-Labels"))
			}
			trouble(w, n.Add(1))
		}), noRPC)
		asker := l.with(entry{"http", asJSON, check.OpCreate}, c.key)
		got := asker.ask(t.Context(), "c", asker.wish)
		calls := l.o.Recorder.Calls()
		if len(calls) != len(c.want) {
			t.Fatalf("key %q: told %+v", c.key, calls)
		}
		for i, want := range c.want {
			if said := calls[i].Code + calls[i].Lost; !strings.HasSuffix(said, want) {
				t.Errorf("key %q, try %d: %q, want %q", c.key, i, said, want)
			}
		}
		if c.key != "" && (got.Job != "video_1" || got.Status != "queued" || got.HTTP != 200 || !got.Good()) {
			t.Errorf("granted %+v", got)
		}
	}
}

// TestNothingListens proves that a request that cannot have arrived is repeated even without a key.
func TestNothingListens(t *testing.T) {
	t.Parallel()
	l := newLoad(t, http.NotFoundHandler(), noRPC)
	l.o.Replicas[0].HTTP = "http://127.0.0.1:1"
	for _, e := range []entry{{"http", asJSON, check.OpCreate}, {"inbox", raw, check.OpPublish}, {"call", typed, check.OpCreate}} {
		asker := l.with(e, "")
		ctx, giveUp := context.WithCancel(t.Context())
		var asked sync.WaitGroup
		asked.Go(func() {
			defer giveUp()
			asker.ask(ctx, "c", asker.wish)
		})
		for begin := len(l.o.Recorder.Calls()); len(l.o.Recorder.Calls()) < begin+2 && faultinject.Pause(ctx, time.Millisecond); {
			continue
		}
		giveUp()
		asked.Wait()
	}
	tries := map[string]int{}
	for _, call := range l.o.Recorder.Calls() {
		if tries[call.Ingress]++; call.Lost != "given up" && !call.NotSent {
			t.Errorf("%+v", call)
		}
	}
	for way, n := range tries {
		if n < 2 {
			t.Errorf("%s: %d tries", way, n)
		}
	}
}

func TestAStreamedReply(t *testing.T) {
	t.Parallel()
	const a, b = `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n", `data: {"choices":[{"delta":{"content":"b"}}]}` + "\n\n"
	for _, c := range []struct{ name, stream, text, code, lost string }{
		{"whole", a + b + "data: [DONE]\n\n", "ab", "", ""},
		{"without [DONE]", a + b, "", "", io.ErrUnexpectedEOF.Error()},
		{"with an error", a + `data: {"error":{"code":"stream_truncated"}}` + "\n\n", "", "stream_truncated", ""},
	} {
		var got answer
		got.readBlocks(strings.NewReader(c.stream))
		if got.Text != c.text || got.Code != c.code || got.Lost != c.lost || got.Whole != (c.text != "") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// videoEvent returns one event of the SSE path.
func videoEvent(version int, status string) string {
	return fmt.Sprintf("id: %[1]d\nevent: genbus.video.task.%[2]s.v1\ndata: {\"id\":\"video_1.%[1]d.n\",\"version\":%[1]d,\"task\":{\"status\":%[2]q}}\n\n", version, status)
}

// TestAFollowerResumes proves that a follower resumes over SSE after the service ended the first
// connection and the client the second.
func TestAFollowerResumes(t *testing.T) {
	t.Parallel()
	var after []string
	l := newLoad(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after = append(after, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(after) {
		case 1:
			fmt.Fprint(w, videoEvent(1, "queued"), videoEvent(2, "queued"), "event: genbus.error.v1\ndata: {\"error\":{\"code\":\"shutting_down\"}}\n\n")
		case 2:
			fmt.Fprint(w, videoEvent(3, "in_progress"))
			w.(http.Flusher).Flush() //nolint:forcetypeassert // httptest's writer is one
			<-r.Context().Done()
		default:
			fmt.Fprint(w, videoEvent(4, "completed"))
		}
	}), noRPC)
	c := l.with(entry{}, "")
	c.follow, c.cuts = "sse", 0
	f := &follower{client: c, job: "video_1", seen: check.Followed{Ingress: "sse"}, remaining: -1}
	f.connect(t.Context())
	f.remaining = 1
	f.connect(t.Context())
	f.remaining = -1
	f.connect(t.Context())
	if !slices.Equal(after, []string{"", "2", "3"}) || !f.seen.Ended || len(f.seen.Items) != 4 || f.seen.Items[3].ID != "video_1.4.n" {
		t.Errorf("resumed after %q, saw %+v", after, f.seen)
	}
	calls := l.o.Recorder.Calls()
	if len(calls) != 3 || calls[0].Code != "shutting_down" || !calls[1].Good() || !calls[2].Good() {
		t.Errorf("told %+v", calls)
	}
}

// watched is a video service that breaks off once.
type watched struct {
	genbusv1grpc.UnimplementedVideoServiceServer
	after []uint64
}

func (w *watched) WatchVideoTask(m *genbusv1.WatchVideoTaskRequest, out grpc.ServerStreamingServer[genbusv1.WatchVideoTaskResponse]) error {
	w.after = append(w.after, m.GetAfterVersion())
	words := []genbusv1.JobStatus{1, 1, 2, 3}
	for v := m.GetAfterVersion() + 1; v <= uint64(len(words)); v++ {
		err := out.Send(&genbusv1.WatchVideoTaskResponse{Event: &genbusv1.VideoTaskEvent{
			Id: fmt.Sprint("e", v), Version: v, Task: &genbusv1.VideoTask{Status: words[v-1]},
		}})
		if err != nil {
			return err
		}
		if v == 2 {
			return status.Error(codes.Unavailable, "cut off")
		}
	}
	return nil
}

func TestAWatchResumes(t *testing.T) {
	t.Parallel()
	service := &watched{}
	l := newLoad(t, http.NotFoundHandler(), func(s *grpc.Server) { genbusv1grpc.RegisterVideoServiceServer(s, service) })
	c := l.with(entry{}, "")
	c.follow = "watch"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c.following(ctx, "video_1")
	f := l.o.Recorder.Followed()
	if len(f) != 1 || !f[0].Ended || f[0].Connections != 2 || len(f[0].Items) != 4 || f[0].Items[3].Status != "completed" {
		t.Errorf("followed %+v", f)
	}
	if !slices.Equal(service.after, []uint64{0, 2}) {
		t.Errorf("resumed after %v", service.after)
	}
}

// atOnce answers every request immediately with this body.
type atOnce string

func (body atOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusAccepted, Body: io.NopCloser(strings.NewReader(string(body))), Request: r}, nil
}

// TestARivalHasTimeOfItsOwn proves that a rival shares no data with the first client, even if that
// one already has its answer. The race detector finds a violation.
func TestARivalHasTimeOfItsOwn(t *testing.T) {
	t.Parallel()
	l := newLoad(t, http.NotFoundHandler(), noRPC)
	l.http = &http.Client{Transport: atOnce(`{"id":"video_a","status":"queued"}`)}
	const lives = 100
	for range lives {
		c := l.with(entry{"http", asJSON, check.OpCreate}, "key")
		c.rival = "same"
		c.live(t.Context())
	}
	if asked, good := l.o.Recorder.Answers(); asked != 2*lives || good != asked {
		t.Errorf("%d of %d questions were granted, want all of %d", good, asked, 2*lives)
	}
}
