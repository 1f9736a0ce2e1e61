package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

type deleteRequest struct {
	Seq     uint64 `json:"seq"`
	NoErase bool   `json:"no_erase"` // do not overwrite the message on disk
}

type apiAnswer struct {
	Error *jetstream.APIError `json:"error"`
}

// Delete removes one message from a stream. removed reports whether this call removed it. A missing
// message is not an error. The server reports it in several ways, so Delete confirms it with a
// read.
func (a *admin) Delete(ctx context.Context, stream string, seq uint64) (removed bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ReadTimeout, fmt.Errorf("delete from %s: no answer within %s", stream, ReadTimeout))
	defer cancel()
	body, err := json.Marshal(deleteRequest{Seq: seq, NoErase: true})
	if err != nil {
		return false, err
	}
	reply, err := a.reads.link.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.DELETE."+stream, body)
	if err != nil {
		return false, fmt.Errorf("delete sequence %d from %s: %w", seq, stream, errors.Join(ErrUnavailable, err))
	}
	var answer apiAnswer
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return false, fmt.Errorf("delete from %s: unreadable answer: %w", stream, err)
	}
	if answer.Error == nil {
		return true, nil
	}
	if _, err := a.reads.At(ctx, stream, seq); errors.Is(err, ErrNoMessage) {
		return false, nil
	}
	return false, fmt.Errorf("delete sequence %d from %s: %w", seq, stream, answer.Error)
}
