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

// notifier notifies this process of its own commits, and other replicas of commits to their jobs.
type notifier struct {
	b      *broker.Broker
	log    *slog.Logger
	writer string // ID of this replica
	hub    *hub
}

// OnCommit registers f to be called when this process has committed the first or terminal event of
// a job, before Commit returns. f must not block.
func (t *notifier) OnCommit(f func(Summary)) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	t.hub.committed = f
}

// OnPeerNotification registers f for peer notifications. These report events that another replica
// wrote to a job whose previous event was this replica's, such as an end or a takeover, and all
// cancellations. f is also called for ends that this replica wrote to its own jobs. Peer
// notifications can be lost. f must not block.
func (t *notifier) OnPeerNotification(f func(Summary)) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	t.hub.observers = append(slices.Clone(t.hub.observers), f)
}

func (t *notifier) subscribe() (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // fails only on a closed connection
		}
	}
	for _, to := range []string{t.writer, subject.AnyWriter} {
		s, err := t.b.Conn().Subscribe(t.b.Names().PeerNotification(to), t.handlePeerNotification)
		if err != nil {
			stop()
			return nil, fmt.Errorf("subscribe to peer notifications: %w", err)
		}
		subs = append(subs, s)
	}
	return stop, t.b.Conn().Flush()
}

// handlePeerNotification handles a peer notification. Its data is the subject of the job's log.
func (t *notifier) handlePeerNotification(m *nats.Msg) {
	if name, err := t.b.Names().ParseTask(string(m.Data)); err == nil && !t.hub.drops() {
		t.hub.notifyObservers(summary(name, m.Header))
	}
}

// notify tells the writer of the job's previous event, usually its holder, about a new event. If
// the message is lost, the holder's next commit or periodic check detects the event. The first two
// events need no message, because a holder continues from admission's event. Cancellations go to
// all replicas, because the holder may not have written an event: it may only poll after a
// takeover, or may not have started yet. Cancellations are rare, and their callers wait.
func (t *notifier) notify(before string, e task.Event) {
	s := Summary{Name: Entry{Event: e}.Name(), Status: task.StatusWord(e.Job.GetStatus()), Writer: t.writer}
	switch {
	case e.Job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_CANCELLED:
		before = subject.AnyWriter
	case e.Version() <= 2, before == "":
		return
	case before == t.writer && e.Terminal():
		t.hub.notifyObservers(s)
		return
	case before == t.writer:
		return
	}
	m := nats.NewMsg(t.b.Names().PeerNotification(before))
	m.Data = []byte(t.b.Names().Task(s.Name.Kind, s.Name.Tenant, s.Name.ID))
	m.Header[subject.HeaderStatus] = []string{s.Status}
	m.Header[subject.HeaderWriter] = []string{s.Writer}
	if err := t.b.WriteConn().PublishMsg(m); err != nil {
		t.log.Debug("could not send peer notification", telemetry.KeyJobID, s.Name.ID, telemetry.KeyError, err)
	}
}
