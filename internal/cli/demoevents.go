package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// watch prints live events and chunks until both jobs have ended.
func (d *demoClient) watch(ctx context.Context, live <-chan *nats.Msg) error {
	for len(d.ended) < 2 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-live:
			if err := d.show(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *demoClient) show(m *nats.Msg) error {
	if _, _, err := d.names.ParseLiveChunk(m.Subject); err == nil {
		return d.showChunk(m)
	}
	name, err := d.names.ParseLiveTask(m.Subject)
	if err != nil {
		return err
	}
	e, err := publisher.DecodeEvent(name.Kind, m.Header, m.Data)
	if err != nil {
		return err
	}
	d.print(task.StatusWord(e.Job.GetStatus()), "%s v%d%s", short(e.Job.GetId()), e.Version(), command.EventDetail(e))
	if e.Terminal() {
		d.ended = append(d.ended, demoJob{name.Kind, name.ID})
	}
	return nil
}

// demoBlock has the fields of a chat block that the demo reads.
type demoBlock struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct{} `json:"usage"`
}

// showChunk prints one line for each block, so that the number of lines matches the count in the
// terminal event.
func (d *demoClient) showChunk(m *nats.Msg) error {
	chunk, err := publisher.DecodeChunk(m.Header, m.Data)
	if err != nil {
		return err
	}
	for i, block := range chunk.GetBlocks() {
		var b demoBlock
		if err := json.Unmarshal(block, &b); err != nil {
			return err
		}
		d.print("chunk", "%s #%d  %s", short(chunk.GetId()), chunk.GetIndex()+uint64(i), d.grown(b))
	}
	return nil
}

// grown returns the text including block b, or the purpose of a block without text.
func (d *demoClient) grown(b demoBlock) string {
	before, finish := d.text, ""
	for _, c := range b.Choices {
		d.text += c.Delta.Content
		finish += c.FinishReason
	}
	switch {
	case d.text != before:
		return d.text
	case finish != "":
		return "(no text: finish_reason " + finish + ")"
	case b.Usage != nil:
		return "(no text: the usage)"
	default:
		return "(no text: the role)"
	}
}

func short(id string) string {
	if len(id) > 14 {
		return id[:14] + "…"
	}
	return id
}

// replay reads the stored events like a late subscriber: the history of each job, and the feed of
// finished jobs.
func (d *demoClient) replay(ctx context.Context) error {
	fmt.Fprintf(d.out, "\nWhat a late subscriber sees:\n")
	for _, job := range d.ended {
		subj := d.names.Task(job.kind, config.DefaultTenant, job.id)
		if err := d.read(ctx, subj); err != nil {
			return err
		}
	}
	return d.read(ctx, d.names.DonePattern())
}

func (d *demoClient) read(ctx context.Context, pattern string) error {
	c, err := d.js.OrderedConsumer(ctx, d.names.Tasks(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{pattern}})
	if err != nil {
		return err
	}
	batch, err := c.Fetch(100, jetstream.FetchMaxWait(300*time.Millisecond))
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "  %s\n", pattern)
	for m := range batch.Messages() {
		h := m.Headers()
		fmt.Fprintf(d.out, "    %s  %-32s %s\n", toMilliseconds(h.Get(subject.HeaderCETime)), h.Get(subject.HeaderCEType), h.Get(subject.HeaderCEID))
	}
	return nil
}

// toMilliseconds formats an event time with millisecond precision, so that the columns align.
func toMilliseconds(at string) string {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return at
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}
