package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
)

const (
	// restoreChunk is how many bytes of a snapshot each message of a restore carries.
	restoreChunk = 128 << 10
	// lookEvery is the interval between attempts to send a chunk.
	lookEvery = 20 * time.Millisecond
)

// Snapshot is a copy of a stream and its consumers, in the format of `nats stream backup`.
type Snapshot struct {
	Stream string
	meta   struct {
		refusal

		Config jsontext.Value `json:"config"`
		State  jsontext.Value `json:"state"`
	}
	data []byte
}

// refusal is the error part of a JetStream answer.
type refusal struct {
	Error *struct {
		Code        int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

func (r refusal) err() error {
	if r.Error == nil {
		return nil
	}
	return fmt.Errorf("%s (%d)", r.Error.Description, r.Error.Code)
}

// TakeSnapshot copies a stream and its consumers as they are at one moment.
func TakeSnapshot(ctx context.Context, nc *nats.Conn, stream string) (s *Snapshot, err error) {
	s = &Snapshot{Stream: stream}
	chunks, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chunks.Unsubscribe()) }()
	if err := ask(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": chunks.Subject}, &s.meta); err != nil {
		return nil, err
	}
	if err := s.meta.err(); err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", stream, err)
	}
	for {
		m, err := chunks.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("snapshot of %s: %w", stream, err)
		}
		if len(m.Data) == 0 {
			return s, ended(m)
		}
		s.data = append(s.data, m.Data...)
		if m.Reply == "" {
			continue
		}
		if err := m.Respond(nil); err != nil {
			return nil, err
		}
	}
}

// ended checks the last message of a snapshot. On success, its status is 204 or missing.
func ended(m *nats.Msg) error {
	if status := m.Header.Get("Status"); status != "" && status != "204" {
		return fmt.Errorf("%s %s", status, m.Header.Get("Description"))
	}
	return nil
}

// Restore recreates the stream, which must not exist.
func (s *Snapshot) Restore(ctx context.Context, nc *nats.Conn) error {
	var to struct {
		refusal

		Deliver string `json:"deliver_subject"`
	}
	err := ask(ctx, nc, "$JS.API.STREAM.RESTORE."+s.Stream, map[string]any{"config": s.meta.Config, "state": s.meta.State}, &to)
	if err := errors.Join(err, to.err()); err != nil {
		return fmt.Errorf("restore %s: %w", s.Stream, err)
	}
	chunk, rest := make([]byte, restoreChunk), bytes.NewReader(s.data)
	for {
		n, err := rest.Read(chunk)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// An empty chunk ends the restore. Its answer describes the stream.
		m, err := insist(ctx, nc, to.Deliver, chunk[:n])
		if err != nil {
			return fmt.Errorf("restore %s: %w", s.Stream, err)
		}
		var answer refusal
		if len(m.Data) > 0 {
			err = errors.Join(json.Unmarshal(m.Data, &answer), answer.err())
		}
		if err != nil || n == 0 {
			return err
		}
	}
}

// insist sends a chunk until a server receives it. The connected server may not know yet which
// server expects the chunk.
func insist(ctx context.Context, nc *nats.Conn, subject string, chunk []byte) (*nats.Msg, error) {
	for {
		m, err := nc.RequestWithContext(ctx, subject, chunk)
		if !errors.Is(err, nats.ErrNoResponders) {
			return m, err
		}
		if broker.Wait(ctx, lookEvery) != nil {
			return nil, err
		}
	}
}

func ask(ctx context.Context, nc *nats.Conn, subject string, question, answer any) error {
	data, err := json.Marshal(question)
	if err != nil {
		return err
	}
	m, err := nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	return json.Unmarshal(m.Data, answer)
}
