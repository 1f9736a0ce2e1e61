// Package load is clients of genbus that ask by every way in, repeat what they
// may repeat, follow, read and cancel their jobs, and write down everything that
// they are told. It judges nothing, and is no benchmark: it asks for little.
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

// Replica is where one replica of the service listens.
type Replica struct {
	Name string
	HTTP string // base URL
	GRPC string // host:port
}

// Options configure a Load.
type Options struct {
	// Seed, with the number of a wish, decides all that a client does.
	Seed uint64
	// Rate is how many wishes begin each second. Default 10.
	Rate float64
	// Jobs is how many queued jobs are to be accepted; no more wishes begin then.
	// Those for an inline chat are not counted. 0: as many as fit until Stop.
	Jobs int
	// Open is the most wishes that are open at once; more begin late. Default 300.
	Open int
	// Replicas are asked in turn; at least one.
	Replicas []Replica
	// NATS are the URLs of the broker, comma separated.
	NATS string
	// Names are those of the service. Zero: the default prefix.
	Names subject.Space
	// Tenants are those whose the jobs are, by turns; with two of them, each asks for
	// jobs of the other. Default: "default", without a key.
	Tenants []Tenant
	// Others are tenants for whom lists are asked for and no jobs.
	Others []Tenant
	// VideoModels and ChatModels are asked for in turn; at least one of each.
	VideoModels, ChatModels []string
	// Patience is how long a wish is asked for again. Default 3m.
	Patience time.Duration
	// Life is how long a client stays with a job after it was accepted. Default 5m.
	Life time.Duration
	// MaxPayload is the largest message of NATS, in bytes. Default 8 MiB.
	MaxPayload int
	// Recorder keeps what clients are told.
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

// Load is clients at work.
type Load struct {
	o    Options
	nc   *nats.Conn
	js   jetstream.JetStream
	http *http.Client
	grpc []*grpc.ClientConn // by replica
	stop chan struct{}
	once sync.Once
	// bursts are wishes that begin at once, and ended is closed when none begins any more.
	bursts chan due
	ended  chan struct{}
	lives  sync.WaitGroup
	// wholePages is how many pages a whole list may have.
	wholePages int
	// accepted counts the wishes whose queued job was accepted.
	accepted atomic.Int64
}

// New makes the clients. They connect when they need to, and again when they are
// cut off; NATS must be there.
func New(o Options) (*Load, error) {
	l := &Load{o: o.withDefaults(), wholePages: mostWholePages, stop: make(chan struct{}), bursts: make(chan due), ended: make(chan struct{})}
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

// Close ends the connections. Run must have returned.
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

// Stop lets no more wishes begin. It may be called twice.
func (l *Load) Stop() { l.once.Do(func() { close(l.stop) }) }

// Run begins wishes until Stop or until enough jobs were accepted, and returns when all
// clients are done with theirs, or soon after ctx ends. It is called once.
func (l *Load) Run(ctx context.Context) {
	defer l.lives.Wait()
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
		l.lives.Go(func() {
			defer func() { <-open }()
			l.client(next).live(ctx)
		})
	}
}

// enough reports whether there are as many queued jobs as there are to be.
func (l *Load) enough() bool { return l.o.Jobs > 0 && l.accepted.Load() >= int64(l.o.Jobs) }

// next waits for the time of the next wish, or for one of a burst, and for a place;
// false at the end. Wishes that come with time have no number yet.
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

// client is who has a wish.
func (l *Load) client(d due) *client {
	random := rand.New(rand.NewPCG(l.o.Seed, uint64(d.n)))
	w := l.wish(d.n, d.shape, random)
	return &client{Load: l, wish: w, random: random, turn: random.IntN(len(l.o.Replicas))}
}
