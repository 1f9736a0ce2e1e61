package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// shortestPull is how long a pull request waits at the server that follows a message.
	shortestPull = time.Second
	// longestPull is how long one waits after a long time without any message. Each pull
	// waits for as long as none came, so that many routes that are idle cost little, and
	// one that a server has lost costs no message more time than it had been idle for.
	longestPull = 2 * time.Minute
	// pullGrace is how long the end of a pull request is waited for after its time.
	pullGrace = time.Second
	// drainTakes is how long the server's answer to the end of a subscription is waited for.
	drainTakes = 5 * time.Second
)

// errRefusedPull is the error of a pull request that the server did not take, or has ended
// before its time.
var errRefusedPull = errors.New("the server refused the pull request")

// errLost is the error of a pull request whose end the server did not say. It is followed
// by another one, on another subscription.
var errLost = errors.New("the server did not answer the pull request")

// puller takes the messages of one durable consumer by pull requests, with one
// subscription for many of them.
//
// The client's own Fetch has a subscription for each request: what a server sends to one
// that was given up waits for its AckWait, so that requests had to be short. Here a
// subscription is drained, which delivers what the server has sent before it knew.
// docs/adr/0017 has what holds in a cluster.
type puller struct {
	nc      *nats.Conn
	durable string
	request string        // the subject of pull requests
	longest time.Duration // the most that one waits

	// quiet is since when no message has come.
	quiet time.Time

	mu sync.Mutex
	// waits is since when the server has nothing to say to the present request; zero
	// where there is none.
	waits time.Time
	// again ends the subscription, so that the requests of it are forgotten.
	again context.CancelFunc
}

func (c *Consumer) newPuller(cons jetstream.Consumer, longest time.Duration) *puller {
	info := cons.CachedInfo()
	p := newPuller(c.Broker.Conn(), info.Stream, info.Name, longest)
	c.pullers = append(c.pullers, p)
	return p
}

func newPuller(nc *nats.Conn, stream, durable string, longest time.Duration) *puller {
	return &puller{nc: nc, durable: durable, request: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + durable, longest: longest, quiet: time.Now(), again: func() {}}
}

// interrupt ends the present subscription where its pull request has waited for that long:
// the server may have lost it.
func (p *puller) interrupt(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waits.IsZero() && time.Since(p.waits) >= waited {
		p.again()
	}
}

// run hands on what comes until ctx ends, the connection is lost (down), p is interrupted,
// or a request fails. What the server has sent until then is handed on when it returns.
func (p *puller) run(ctx, down context.Context, free *slots, take take) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connected := down.Err() == nil // else the client says that it cannot send
	if connected {
		defer context.AfterFunc(down, cancel)()
	}
	p.mu.Lock()
	p.again = cancel
	p.mu.Unlock()
	sub, err := p.nc.SubscribeSync(p.nc.NewInbox())
	if err != nil {
		return fmt.Errorf("subscribe to what is pulled: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // one that was drained is none any more
	_ = sub.SetPendingLimits(-1, -1)         // what is asked for is the limit
	hand := func(m *nats.Msg) { take(pulled{m}, sync.OnceFunc(func() { free.release(1) })) }
	for {
		expires, batch := p.next()
		n, err := free.reserve(ctx, batch)
		if err != nil {
			return nil
		}
		left, err := p.pull(ctx, down, sub, n, expires, hand)
		over := ctx.Err() != nil || connected && down.Err() != nil || errors.Is(err, errLost)
		if over || err != nil {
			left -= drain(down, sub, hand)
		}
		free.release(max(left, 0))
		if over {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// pull asks for n messages and hands each on as it comes, until all have come or the
// request is over. left is how many have not come. A short request ends by its time alone:
// a message that a server of a cluster sends while another one hears of the drain waits for
// its AckWait, and where messages come often one would be hit.
func (p *puller) pull(ctx, down context.Context, sub *nats.Subscription, n int, expires time.Duration, hand func(*nats.Msg)) (left int, err error) {
	if expires == shortestPull && down.Err() == nil {
		ctx = down
	}
	data, err := json.Marshal(map[string]int64{"batch": int64(n), "expires": int64(expires)})
	if err != nil {
		return n, err
	}
	if err := p.nc.PublishRequest(p.request, sub.Subject, data); err != nil {
		return n, fmt.Errorf("pull %d messages: %w", n, err)
	}
	p.waitSince(time.Now())
	defer p.waitSince(time.Time{})
	limit, cancel := context.WithTimeoutCause(ctx, expires+pullGrace, errLost)
	defer cancel()
	for left = n; left > 0; left-- {
		m, err := sub.NextMsgWithContext(limit)
		if err != nil {
			return left, errors.Join(context.Cause(limit), err)
		}
		if over, err := pullStatus(m); over {
			return left, err
		}
		p.quiet = time.Now()
		p.waitSince(p.quiet)
		hand(m)
	}
	return 0, nil
}

// next is how long the next request waits, which is as long as no message came, and how many
// messages it asks for. A long one asks for a single message: where its process dies, and
// another client in the account subscribes to all inboxes, the server sends messages to it until
// its time is over. The request after that one is short.
func (p *puller) next() (expires time.Duration, batch int) {
	expires = min(max(time.Since(p.quiet), shortestPull), p.longest)
	if expires > shortestPull {
		return expires, 1
	}
	return expires, fetchBatch
}

func (p *puller) waitSince(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = t
}

// drain ends a subscription and hands on what the server has sent until it knew, or, where
// the connection is lost, what has come. It returns the number of messages.
func drain(down context.Context, sub *nats.Subscription, hand func(*nats.Msg)) (messages int) {
	if down.Err() == nil && sub.Drain() != nil {
		return 0
	}
	for {
		if waiting, _, err := sub.Pending(); down.Err() != nil && (err != nil || waiting == 0) {
			return messages
		}
		m, err := sub.NextMsg(drainTakes)
		if err != nil {
			return messages // none comes any more
		}
		if over, _ := pullStatus(m); !over {
			messages++
			hand(m)
		}
	}
}

// pullStatus reports whether a message is no message of the stream but says that the pull
// request is over; err is nil where that is only because of its time.
func pullStatus(m *nats.Msg) (over bool, err error) {
	code := m.Header.Get("Status")
	if len(m.Data) > 0 || code == "" {
		return false, nil
	}
	switch description := m.Header.Get("Description"); {
	case code == "404", code == "408":
		return true, nil
	case code == "503":
		return true, nats.ErrNoResponders
	case description == "Consumer Deleted":
		return true, jetstream.ErrConsumerDeleted
	default:
		return true, fmt.Errorf("%w: %s %s", errRefusedPull, code, description)
	}
}

// pulled is a message as the parts of the consumer take it.
type pulled struct{ m *nats.Msg }

func (d pulled) Subject() string      { return d.m.Subject }
func (d pulled) Reply() string        { return d.m.Reply }
func (d pulled) Headers() nats.Header { return d.m.Header }
func (d pulled) Data() []byte         { return d.m.Data }

func (d pulled) Metadata() (*jetstream.MsgMetadata, error) {
	meta, err := d.m.Metadata()
	if err != nil {
		return nil, err
	}
	return &jetstream.MsgMetadata{
		Sequence: jetstream.SequencePair(meta.Sequence), NumDelivered: meta.NumDelivered, NumPending: meta.NumPending,
		Timestamp: meta.Timestamp, Stream: meta.Stream, Consumer: meta.Consumer, Domain: meta.Domain,
	}, nil
}
