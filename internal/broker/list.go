package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// maxListed limits how many consumers of a stream Consumers reads.
const maxListed = 100_000

type listAnswer struct {
	apiAnswer
	Total     int                       `json:"total"`
	Consumers []*jetstream.ConsumerInfo `json:"consumers"`
}

// Consumers returns the state of a stream's consumers, by name. It reads 256 per request. The
// server omits consumers whose leader does not answer.
func (a *admin) Consumers(ctx context.Context, stream string) (map[string]*jetstream.ConsumerInfo, error) {
	out := map[string]*jetstream.ConsumerInfo{}
	// Omitted consumers count toward the offset, so a page may be short.
	for at, total := 0, 1; at < min(total, maxListed); at += pageConsumers {
		page, err := a.consumersFrom(ctx, stream, at)
		if err != nil {
			return nil, fmt.Errorf("list the consumers of %s: %w", stream, err)
		}
		for _, info := range page.Consumers {
			out[info.Name] = info
		}
		total = page.Total
	}
	return out, nil
}

const pageConsumers = 256

func (a *admin) consumersFrom(ctx context.Context, stream string, offset int) (page listAnswer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ReadTimeout, fmt.Errorf("no answer within %s", ReadTimeout))
	defer cancel()
	body, err := json.Marshal(map[string]int{"offset": offset})
	if err != nil {
		return page, err
	}
	reply, err := a.reads.link.nc.RequestWithContext(ctx, "$JS.API.CONSUMER.LIST."+stream, body)
	if err != nil {
		return page, errors.Join(ErrUnavailable, context.Cause(ctx), err)
	}
	if err := json.Unmarshal(reply.Data, &page); err != nil {
		return page, fmt.Errorf("unreadable answer: %w", err)
	}
	if page.Error != nil {
		return page, errors.Join(ErrUnavailable, page.Error)
	}
	return page, nil
}
