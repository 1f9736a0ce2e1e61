package consumer

import (
	"io"
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// abandon starts a job and stops its replica ungracefully once the job is in a phase and ready has
// returned. It returns the job's state.
func abandon(t *testing.T, b *broker.Broker, url string, kind subject.Kind, phase genbusv1.JobPhase, ready func(), change ...func(*config.Config)) joblog.Entry {
	t.Helper()
	r := newReplica(t, b, testConfig(t, url, change...))
	var request proto.Message = videoRequest("v", "sandbox-video", "a cat")
	if kind == subject.Chat {
		request = chatRequest("v", "sandbox-chat", true)
	}
	id := publish(t, b, kind, "v", request)
	e := last(follow(t, r.log, id, phase))
	ready()
	r.stop(false)
	return e
}

// strand abandons a job and removes its work item.
func strand(t *testing.T, b *broker.Broker, url string, kind subject.Kind, phase genbusv1.JobPhase, ready func(), change ...func(*config.Config)) joblog.Entry {
	t.Helper()
	e := abandon(t, b, url, kind, phase, ready, change...)
	purge(t, b, b.Names().Work(), b.Names().WorkAnyRoute(kind, "acme", e.Job.GetId()))
	return e
}

// silent starts an upstream that reads a create and does not answer. begun returns when it has one.
func silent(t *testing.T) (url string, begun func()) {
	t.Helper()
	read := make(chan struct{})
	url = scripted(t, map[string]http.HandlerFunc{createPath: func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(read)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}})
	return url, func() { <-read }
}
