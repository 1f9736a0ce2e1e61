package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/client"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/streamread"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Events prints events as NATS delivers them.
type Events struct {
	natsConnection `embed:""`
	Done           bool   `help:"Show only the ends of jobs."`
	Kind           string `help:"Show only this kind: video or chat." enum:"video,chat," default:""`
	Tenant         string `help:"Show only this tenant."`
	ID             string `help:"Show only this job, from its newest event until its end." name:"id"`
	Since          string `help:"Start with the events since a time (2026-01-31T12:00:00Z) or of the last duration (2h)." placeholder:"WHEN"`
	JSON           bool   `help:"Print each event as one line of JSON." name:"json"`
}

// Run prints events until ctx ends, or until the job named by --id ends.
func (c *Events) Run(ctx context.Context, out io.Writer) error {
	names, err := subject.New(c.Prefix)
	if err != nil {
		return WrongUse("--prefix: %w", err)
	}
	from, err := c.from(time.Now())
	if err != nil {
		return err
	}
	filters, err := c.filters(names)
	if err != nil {
		return err
	}
	c.NATS = cmp.Or(c.NATS, nats.DefaultURL)
	nc, err := c.dial(os.Getenv("NATS_PASSWORD"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if c.ID != "" {
		if err := c.fromJob(ctx, nc, names, &from); err != nil {
			return err
		}
	}
	from.FilterSubjects = filters
	consumer, err := js.OrderedConsumer(ctx, names.Tasks(), from)
	if err != nil {
		return exitError{ExitUnavailable, fmt.Errorf("read %s: %w", names.Tasks(), err)}
	}
	return c.tail(ctx, consumer, &tail{out: out, json: c.JSON, names: names})
}

// from returns the configuration of a consumer that starts now or at the time given by --since.
func (c *Events) from(now time.Time) (jetstream.OrderedConsumerConfig, error) {
	if c.Since == "" {
		return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}, nil
	}
	at, err := since(c.Since, now)
	return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &at}, err
}

// since parses a time, or a duration that it subtracts from now.
func since(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if while, notLong := time.ParseDuration(text); err != nil && notLong == nil {
		if while < 0 {
			return at, WrongUse("--since: %q is negative; use a duration such as 2h for the last two hours, or a time", text)
		}
		at, err = now.Add(-while), nil
	}
	if err != nil {
		return at, WrongUse("--since: %q is neither a time (2026-01-31T12:00:00Z) nor a duration (2h)", text)
	}
	return at, nil
}

// fromJob moves the start back to the newest event of the job if necessary. Otherwise, nothing
// would be delivered for a job that has ended.
func (c *Events) fromJob(ctx context.Context, nc *nats.Conn, names subject.Space, from *jetstream.OrderedConsumerConfig) error {
	kind, _ := subject.KindOf(c.ID) // filters has checked the ID
	request, err := streamread.Last(names.Task(kind, cmp.Or(c.Tenant, "*"), c.ID)).Encode()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var newest streamread.Message
	answer, err := nc.RequestWithContext(ctx, streamread.Subject(names.Tasks()), request)
	if err == nil {
		newest, err = streamread.Decode(answer.Data)
	}
	switch {
	case errors.Is(err, streamread.ErrNoMessage):
		code := client.ErrTaskNotFound
		if kind == subject.Chat {
			code = client.ErrChatNotFound
		}
		return &client.Error{Code: code, JobID: c.ID, Message: fmt.Sprintf("the log has no event of %s: job not found, or already removed", c.ID)}
	case err != nil:
		return exitError{ExitUnavailable, fmt.Errorf("read %s: %w", names.Tasks(), err)}
	case c.Done: // a job has only one such event
		*from = jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	case from.OptStartTime == nil || newest.Time.Before(*from.OptStartTime):
		*from = jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: newest.Seq}
	}
	return nil
}

const lookTime = 5 * time.Second

// filters returns the subjects of the requested events.
func (c *Events) filters(names subject.Space) ([]string, error) {
	kind := subject.Kind(cmp.Or(c.Kind, "*"))
	if c.ID != "" {
		of, ok := subject.KindOf(c.ID)
		if !ok || c.Kind != "" && of != kind {
			return nil, WrongUse("--id: %q is not a job ID%s; IDs look like video_… or chat_…", c.ID, map[bool]string{true: " of this kind"}[ok])
		}
		kind = of
	}
	if c.Tenant != "" {
		if err := subject.CheckToken(c.Tenant); err != nil {
			return nil, WrongUse("--tenant: %w", err)
		}
	}
	tenant, id := cmp.Or(c.Tenant, "*"), cmp.Or(c.ID, "*")
	if c.Done {
		return []string{names.Done(kind, tenant, "*", id)}, nil
	}
	return []string{names.Task(kind, tenant, id)}, nil
}

// tail prints events until ctx or the job ends. The consumer survives lost connections.
func (c *Events) tail(ctx context.Context, consumer jetstream.Consumer, t *tail) error {
	reading, err := consumer.Messages(jetstream.WithMessagesErrOnMissingHeartbeat(false))
	if err != nil {
		return err
	}
	defer reading.Stop()
	for {
		m, err := reading.Next(jetstream.NextContext(ctx))
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrMsgIteratorClosed):
			return err
		case err != nil:
			fmt.Fprintln(os.Stderr, "genbus: lost the connection, waiting:", err)
		default:
			if last, err := t.show(m); err != nil || last && c.ID != "" {
				return err
			}
		}
	}
}

// tail prints one line per event.
type tail struct {
	out   io.Writer
	json  bool
	names subject.Space
}

// show prints an event and reports whether it is the last one of its job.
func (t *tail) show(m jetstream.Msg) (last bool, err error) {
	kind, err := t.kind(m.Subject())
	if err != nil {
		return false, err
	}
	e, err := publisher.DecodeEvent(kind, m.Headers(), m.Data())
	if err != nil {
		return false, fmt.Errorf("decode an event on %s: %w", m.Subject(), err)
	}
	line := fmt.Sprintf("%s  %-10s  %s  v%-3d %-11s%s", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Job.GetTenant(), e.Job.GetId(), e.Version(),
		task.StatusWord(e.Job.GetStatus()), clean(EventDetail(e)))
	if t.json {
		data, err := body.EventJSON(publisher.Message(e))
		if err != nil {
			return false, err
		}
		line = string(data)
	}
	_, err = fmt.Fprintln(t.out, strings.TrimRight(line, " "))
	return client.Terminal(e.Job.GetStatus()), err
}

func (t *tail) kind(subj string) (subject.Kind, error) {
	if n, err := t.names.ParseDone(subj); err == nil {
		return n.Kind, nil
	}
	n, err := t.names.ParseTask(subj)
	return n.Kind, err
}
