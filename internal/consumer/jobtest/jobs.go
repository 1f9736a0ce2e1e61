package jobtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Publish publishes a request to the inbox and returns its job ID.
func Publish(t testing.TB, b *broker.Broker, kind subject.Kind, requestID string, m proto.Message) string {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	msg := nats.NewMsg(b.Names().Request(kind, "acme"))
	msg.Data = data
	if _, err := b.Publish(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	return subject.JobID(kind, "acme", "request\x00"+requestID)
}

// VideoRequest returns an inbox request for a video.
func VideoRequest(requestID, model, prompt string) *genbusv1.VideoRequest {
	return &genbusv1.VideoRequest{RequestId: requestID, Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: model, Prompt: prompt}}}
}

// Follow collects a job's events until the job ends or reaches one of the given phases.
func Follow(t testing.TB, l *joblog.Log, id string, until ...genbusv1.JobPhase) []joblog.Entry {
	t.Helper()
	kind, _ := subject.KindOf(id)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var out []joblog.Entry
	for {
		for e, err := range l.Follow(ctx, subject.JobName{Kind: kind, Tenant: "acme", ID: id}, uint64(len(out))) {
			if errors.Is(err, joblog.ErrNotFound) {
				break // not admitted yet
			}
			if err != nil {
				t.Fatalf("after %s: %v", Phases(out), err)
			}
			out = append(out, e)
			for _, p := range until {
				if e.Job.GetExecution().GetPhase() == p {
					return out
				}
			}
		}
		if len(out) > 0 {
			return out
		}
		if err := broker.Wait(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// Phases returns the names of the phases that a job went through.
func Phases(entries []joblog.Entry) string {
	var out []string
	for _, e := range entries {
		word := strings.ToLower(strings.TrimPrefix(e.Job.GetExecution().GetPhase().String(), "JOB_PHASE_"))
		if len(out) == 0 || out[len(out)-1] != word {
			out = append(out, word)
		}
	}
	return strings.Join(out, " ")
}

// Last returns the last event.
func Last(entries []joblog.Entry) joblog.Entry { return entries[len(entries)-1] }

// DeadLetters reads the dead letters of jobs and of rejected requests.
func DeadLetters(t testing.TB, b *broker.Broker) []*genbusv1.DeadLetter {
	t.Helper()
	return append(deadLettersIn(t, b, b.Names().Dead()), deadLettersIn(t, b, b.Names().Rejected())...)
}

func deadLettersIn(t testing.TB, b *broker.Broker, stream string) []*genbusv1.DeadLetter {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	n := int(s.CachedInfo().State.Msgs)
	out := make([]*genbusv1.DeadLetter, 0, n)
	for range n {
		m := brokertest.Next(t, c)
		letter := &genbusv1.DeadLetter{}
		if err := proto.Unmarshal(m.Data(), letter); err != nil {
			t.Fatal(err)
		}
		out = append(out, letter)
	}
	return out
}

// VideoID returns the job ID of a request.
func VideoID(request string) string {
	return subject.JobID(subject.Video, "acme", "request\x00"+request)
}

// VideoOf returns the video task of an entry.
func VideoOf(e joblog.Entry) *genbusv1.VideoTask {
	v, _ := e.Job.(*genbusv1.VideoTask)
	return v
}

// Transition is one step in a video's past.
type Transition func(v *genbusv1.VideoTask, now time.Time) (task.Event, error)

// PastOf writes a video's log as earlier holders would have left it and returns the last entry.
func PastOf(t testing.TB, l *joblog.Log, item *genbusv1.WorkItem, past ...Transition) joblog.Entry {
	t.Helper()
	e, err := l.Commit(t.Context(), task.FromWork(item), 0)
	for _, step := range past {
		if err != nil {
			t.Fatal(err)
		}
		var next task.Event
		if next, err = step(VideoOf(e), time.Now()); err == nil {
			e, err = l.Commit(t.Context(), next, e.Seq)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// PastItem returns the work item of a video for use with PastOf.
func PastItem(request string) *genbusv1.WorkItem {
	return &genbusv1.WorkItem{
		Id: VideoID(request), Kind: "video", Tenant: "acme", Route: config.SandboxVideoRoute, Model: "sandbox-video", Protocol: "primary",
		Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now(),
	}
}

// ItemOf returns a work item whose fingerprint is its prompt.
func ItemOf(request, route, prompt string) *genbusv1.WorkItem {
	return &genbusv1.WorkItem{
		Id: VideoID(request), Kind: "video", Tenant: "acme", Route: route, Model: "sandbox-video", Protocol: "primary", RequestId: request,
		Fingerprint: []byte(prompt), Body: fmt.Appendf(nil, `{"model":"sandbox-video","prompt":%q}`, prompt), AcceptedAt: timestamppb.Now(),
	}
}

// Forerunner returns a separate log that writes as another replica would.
func Forerunner(t testing.TB, b *broker.Broker) *joblog.Log {
	return joblog.New(joblog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t)})
}

// CompletedUpstream returns the past of a video that its upstream has completed, with the given
// time left to copy the result.
func CompletedUpstream(left time.Duration) []Transition {
	return []Transition{
		func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			// The deadline has passed, but too recently for a sweeper to end the video before the
			// rest of its past is written.
			return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now, Deadline: now.Add(-time.Second)})
		},
		func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitted(v, now, task.Receipt{UpstreamID: "up_1", Status: "queued"})
		},
		func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Archiving(v, now, now.Add(left), "completed", nil)
		},
	}
}

// Upload uploads a video request and returns a request that references the upload.
func Upload(t testing.TB, b *broker.Broker, word, model string) *genbusv1.VideoRequest {
	t.Helper()
	ref := brokertest.Upload(t, b.JetStream(), "acme", word, VideoRequest(word, model, "a cat"))
	return &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}}
}

// UnsettledRequests returns the number of unsettled inbox requests.
func UnsettledRequests(t testing.TB, b *broker.Broker) uint64 {
	t.Helper()
	s, err := b.Stream(t.Context(), b.Names().Requests())
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}
