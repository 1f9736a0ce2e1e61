// Package load simulates clients of genbus. They use every ingress, repeat requests where that is
// allowed, follow, read and cancel their jobs, and record every answer. The package does not judge
// the answers. It is not a benchmark, because the load is light.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/genbus/genbus/internal/subject"
)

// Replica holds the addresses of one replica of the service.
type Replica struct {
	Name string
	HTTP string // base URL
	GRPC string // host:port
}

// Options configure a Load.
type Options struct {
	// Seed and the number of a wish determine everything that a client does.
	Seed uint64
	// Rate is the number of wishes that begin each second. Default 10.
	Rate float64
	// Jobs is the number of accepted queued jobs after which no more wishes begin. Inline chats do
	// not count. 0 means no limit.
	Jobs int
	// Open is the maximum number of open wishes. Further wishes begin late. Default 300.
	Open int
	// Replicas receive requests in turn. At least one is required.
	Replicas []Replica
	// NATS holds the broker URLs, separated by commas.
	NATS string
	// Names is the subject space of the service. The zero value means the default prefix.
	Names subject.Space
	// Tenants own the jobs. If there are several, each also tries to access jobs of another.
	// Default: "default", without a key.
	Tenants []Tenant
	// Others are tenants without jobs whose lists are requested.
	Others []Tenant
	// VideoModels and ChatModels are the requested models. At least one of each is required.
	VideoModels, ChatModels []string
	// Patience is how long a client retries a request. Default 3m.
	Patience time.Duration
	// Life is how long a client works with an accepted job. Default 5m.
	Life time.Duration
	// MaxPayload is the largest NATS message in bytes. Default 8 MiB.
	MaxPayload int
	// Recorder records the answers.
	Recorder *Recorder
}

func (o Options) withDefaults() Options {
	o.Rate = cmp.Or(o.Rate, 10)
	o.Open = cmp.Or(o.Open, 300)
	o.MaxPayload = cmp.Or(o.MaxPayload, 8<<20)
	o.Names = cmp.Or(o.Names, subject.Default())
	if len(o.Tenants) == 0 {
		o.Tenants = []Tenant{{Name: "default"}}
	}
	o.Patience = cmp.Or(o.Patience, 3*time.Minute)
	o.Life = cmp.Or(o.Life, 5*time.Minute)
	return o
}

// Load runs clients.
type Load struct {
	o    Options
	nc   *nats.Conn
	js   jetstream.JetStream
	http *http.Client
	grpc []*grpc.ClientConn // by replica
	stop chan struct{}
	once sync.Once
	// bursts carries wishes that begin at once. ended is closed when no more wishes begin.
	bursts  chan due
	ended   chan struct{}
	running sync.WaitGroup
	// wholePages is the maximum number of pages of a whole list.
	wholePages int
	// accepted counts the wishes whose queued job was accepted.
	accepted atomic.Int64
}

// New returns a Load whose clients connect on demand and reconnect. NATS may be unavailable at
// first.
func New(o Options) (*Load, error) {
	l := &Load{o: o.withDefaults(), wholePages: maxWholePages, stop: make(chan struct{}), bursts: make(chan due), ended: make(chan struct{})}
	l.http = &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: l.o.Open, DisableCompression: true, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	for _, r := range o.Replicas {
		conn, err := grpc.NewClient(r.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(reconnect))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("gRPC to %s: %w", r.Name, err), l.Close())
		}
		l.grpc = append(l.grpc, conn)
	}
	var err error
	if l.nc, err = nats.Connect(o.NATS, nats.Name("load"), nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1), nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2)); err != nil {
		return nil, errors.Join(fmt.Errorf("NATS at %s: %w", o.NATS, err), l.Close())
	}
	if l.js, err = jetstream.New(l.nc); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close closes the connections. Run must have returned.
func (l *Load) Close() error {
	var errs []error
	for _, c := range l.grpc {
		errs = append(errs, c.Close())
	}
	if l.nc != nil {
		l.nc.Close()
	}
	l.http.CloseIdleConnections()
	return errors.Join(errs...)
}

// Stop prevents further wishes from beginning. It may be called twice.
func (l *Load) Stop() { l.once.Do(func() { close(l.stop) }) }

// Run begins wishes until Stop is called or enough jobs are accepted. It returns when all clients
// have finished, or soon after ctx ends. Call it only once.
func (l *Load) Run(ctx context.Context) {
	defer l.running.Wait()
	defer close(l.ended)
	open := make(chan struct{}, l.o.Open)
	ticker := time.NewTicker(time.Duration(float64(time.Second) / l.o.Rate))
	defer ticker.Stop()
	for n := 0; !l.enough(); {
		next, goes := l.next(ctx, ticker.C, open)
		switch {
		case !goes:
			return
		case next.n < 0:
			next.n = n
			n++
		}
		l.running.Go(func() {
			defer func() { <-open }()
			l.client(next).live(ctx)
		})
	}
}

func (l *Load) enough() bool { return l.o.Jobs > 0 && l.accepted.Load() >= int64(l.o.Jobs) }

// next waits for the next wish, which is due by time or comes from a burst, and for a free slot. It
// returns false when no more wishes begin. A wish that is due by time has no number yet.
func (l *Load) next(ctx context.Context, tick <-chan time.Time, open chan struct{}) (due, bool) {
	next := due{n: -1}
	select {
	case <-tick:
	case next = <-l.bursts:
	case <-l.stop:
		return due{}, false
	case <-ctx.Done():
		return due{}, false
	}
	select {
	case open <- struct{}{}:
		return next, true
	case <-l.stop:
		return due{}, false
	case <-ctx.Done():
		return due{}, false
	}
}

func (l *Load) client(d due) *client {
	random := rand.New(rand.NewPCG(l.o.Seed, uint64(d.n)))
	w := l.wish(d.n, d.shape, random)
	return &client{Load: l, wish: w, random: random, turn: random.IntN(len(l.o.Replicas))}
}
