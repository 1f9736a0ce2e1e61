package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// maxListed bounds the consumers of a stream that Consumers reads.
const maxListed = 100_000

// listAnswer is a page of the consumers of a stream.
type listAnswer struct {
	apiAnswer
	Total     int                       `json:"total"`
	Consumers []*jetstream.ConsumerInfo `json:"consumers"`
}

// Consumers reads the state of all consumers of a stream, by name, 256 with one request. The
// server leaves out those whose leader does not answer it.
func (a *admin) Consumers(ctx context.Context, stream string) (map[string]*jetstream.ConsumerInfo, error) {
	out := map[string]*jetstream.ConsumerInfo{}
	// Those that are left out count for the offset too, so a page can be short.
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

// pageConsumers is how many consumers the server lists with one answer.
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
