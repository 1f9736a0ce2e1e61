package apitest

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/operator/audit"
	"github.com/genbus/genbus/internal/subject"
)

// OperatorKey is the operator key that WithOperator configures.
const OperatorKey = "gb_operator-key-0123456789"

// LocalKey is the key of core.LocalOperator.
const LocalKey = "gb_local-key-0123456789"

// ByOperator is a header with OperatorKey.
var ByOperator = []string{"Authorization", "Bearer " + OperatorKey}

// WithOperator configures an operator named ops.
func WithOperator(c *config.Config) {
	c.OperatorKeys = []config.OperatorKey{{Name: "ops", KeyEnv: "OPS", Key: config.NewSecret(OperatorKey)}}
}

func readBodies(c *config.Config) { c.OperatorsReadBodies = true }

// OrphanedDeadLetter returns a dead letter for a video that its upstream has. It can be redriven
// and attached.
func OrphanedDeadLetter(tenant string) *genbusv1.DeadLetter {
	return &genbusv1.DeadLetter{
		Kind: string(subject.Video), Tenant: tenant, Id: subject.JobID(subject.Video, tenant, "old"),
		Data:  []byte(`{"model":"sandbox-video","prompt":"secret"}`),
		Error: &genbusv1.TaskError{Code: "orphaned_submission"}, Upstream: config.SandboxUpstream, UpstreamTaskId: "up_1",
		Work: &genbusv1.WorkItem{
			Id: subject.JobID(subject.Video, tenant, "old"), Kind: string(subject.Video), Tenant: tenant,
			Model: "sandbox-video", Route: config.SandboxVideoRoute, Protocol: "primary", AcceptedAt: timestamppb.Now(),
		},
	}
}

// LostDeadLetter returns a dead letter for a submission whose outcome is unknown. Its upstream can
// look up tasks by our ID.
func LostDeadLetter(tenant string) *genbusv1.DeadLetter {
	l := OrphanedDeadLetter(tenant)
	l.Error.Code, l.UpstreamTaskId, l.OwnTaskId = "submission_outcome_unknown", "", l.GetId()+"-1"
	l.Data = []byte(`{"model_name":"sandbox-kling","prompt":"secret"}`)
	l.Work.Model, l.Work.Route, l.Work.Protocol = "sandbox-kling", "sandbox-kling", "kling"
	return l
}

// PutDeadLetter stores the dead letter of a video and returns its sequence.
func (w *World) PutDeadLetter(l *genbusv1.DeadLetter) uint64 {
	w.T.Helper()
	m := nats.NewMsg(w.Broker.Names().DeadLetter(subject.Video, l.GetTenant(), "x"))
	m.Header.Set(subject.HeaderErrorCode, l.GetError().GetCode())
	m.Data = Must[[]byte](w.T)(proto.Marshal(l))
	return Must[broker.Ack](w.T)(w.Broker.Publish(w.T.Context(), m)).Seq
}

// Durables creates the consumers of all routes.
func (w *World) Durables() {
	w.T.Helper()
	for _, r := range w.Cfg.Routes {
		if _, err := w.Queue.Route(subject.Kind(r.Kind), r.Name).Ensure(w.T.Context(), r, w.Broker.Streams().EnsureConsumer); err != nil {
			w.T.Fatal(err)
		}
	}
}

// SilentUpstream returns a configuration change that gives all routes an upstream that does not
// answer until release is called. reached receives a value for each request.
func SilentUpstream(t *testing.T) (configure func(*config.Config), reached <-chan struct{}, release func()) {
	t.Helper()
	came, released := make(chan struct{}, 100), make(chan struct{})
	h := NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		select {
		case <-released:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNotFound)
	})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	return UpstreamAt(h), came, release
}

// LostTasks stores n dead letters whose tasks must be looked up at the upstream to attach them.
func (w *World) LostTasks(n int) (tasks []*genbusv1.LetterTask) {
	w.T.Helper()
	for i := range n {
		l := LostDeadLetter("acme")
		l.Id = subject.JobID(subject.Video, "acme", fmt.Sprint("lost", i))
		l.OwnTaskId, l.Work.Id = l.GetId()+"-1", l.GetId()
		tasks = append(tasks, &genbusv1.LetterTask{Sequence: w.PutDeadLetter(l)})
	}
	return tasks
}

// BulkRecord waits for the final audit record of the last bulk run.
func (w *World) BulkRecord() (r *genbusv1.AuditRecord) {
	w.T.Helper()
	w.Await("the record of the run", func() bool {
		page, err := audit.Log{Broker: w.Broker, Logger: w.Logger}.List(w.T.Context(), audit.Query{Size: 1})
		if err != nil || len(page.Records) == 0 {
			return false
		}
		r = page.Records[0].GetRecord()
		return r.GetOutcome() != genbusv1.AuditRecord_OUTCOME_BEGUN
	})
	return r
}
