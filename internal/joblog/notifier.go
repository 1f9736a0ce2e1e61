package joblog

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// notifier tells this process of its own commits, and other replicas of commits to their jobs.
type notifier struct {
	b      *broker.Broker
	log    *slog.Logger
	writer string // this replica
	hub    *hub
}

// OnCommit has a function hear of the commits of this process that begin or end a job, each
// before it is answered. It must not block.
func (t *notifier) OnCommit(f func(Notice)) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	t.hub.committed = f
}

// OnNotice registers a function that hears at once of what was written into a job whose
// event before that was this replica's: a cancel, an end, or an event of a replica that has
// taken the job over. All hear of every cancel. A notice can be lost, and the ends of this
// replica's own jobs that it writes itself are among them. f must not block.
func (t *notifier) OnNotice(f func(Notice)) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	t.hub.concerned = append(slices.Clone(t.hub.concerned), f)
}

// subscribe listens to the notices for this replica.
func (t *notifier) subscribe() (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // a closed connection has no subscription left
		}
	}
	for _, to := range []string{t.writer, subject.AnyWriter} {
		s, err := t.b.Conn().Subscribe(t.b.Names().Notice(to), t.noticed)
		if err != nil {
			stop()
			return nil, fmt.Errorf("subscribe to notices: %w", err)
		}
		subs = append(subs, s)
	}
	return stop, t.b.Conn().Flush()
}

// noticed takes a notice: its data is the subject of the job's log.
func (t *notifier) noticed(m *nats.Msg) {
	if name, err := t.b.Names().ParseTask(string(m.Data)); err == nil && !t.hub.drops() {
		t.hub.concern(notice(name, m.Header))
	}
}

// notify tells the replica that has most likely to do with a job, the writer of the event
// before, of one that another has stored: where the notice is lost, the next commit of a
// holder finds out, or its check of what it holds. A holder begins with what admission
// wrote, and no one is told of that. All are told of a cancel, which is rare, and whose
// caller waits: the holder may have taken the job over and only polls, or not have begun.
func (t *notifier) notify(before string, e task.Event) {
	n := Notice{Name: Entry{Event: e}.Name(), Status: task.StatusWord(e.Job.GetStatus()), Writer: t.writer}
	switch {
	case e.Job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_CANCELLED:
		before = subject.AnyWriter
	case e.Version() <= 2, before == "":
		return
	case before == t.writer && e.Terminal():
		t.hub.concern(n)
		return
	case before == t.writer:
		return
	}
	m := nats.NewMsg(t.b.Names().Notice(before))
	m.Data = []byte(t.b.Names().Task(n.Name.Kind, n.Name.Tenant, n.Name.ID))
	m.Header[subject.HeaderStatus] = []string{n.Status}
	m.Header[subject.HeaderWriter] = []string{n.Writer}
	if err := t.b.WriteConn().PublishMsg(m); err != nil {
		t.log.Debug("could not send peer notification", telemetry.KeyJobID, n.Name.ID, telemetry.KeyError, err)
	}
}
