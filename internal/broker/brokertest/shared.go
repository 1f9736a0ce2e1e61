package brokertest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

// maxTests is the number of accounts in the shared cluster, one per test.
const maxTests = 100

// shared is the cluster that the tests of a package share. The election of three servers takes
// seconds. Without a shared cluster, dozens of tests would each wait for one.
var shared struct {
	mu      sync.Mutex
	cluster *Cluster
	dir     string
	err     error
	claimed int
}

const (
	// inParallel is the default number of parallel tests. GOMAXPROCS is used instead if it is
	// higher. Tests spend more time waiting for the broker's timers than for a processor.
	inParallel = 24
	// maxParallelRace is the limit if the race detector is on. Tests then compete for processors,
	// and more of them would run into their timeouts.
	maxParallelRace = 6
)

// Tests runs a package's tests in parallel, with their files in memory, and then stops the shared
// cluster. Pass it to goleak.VerifyTestMain:
//
//	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
type Tests struct {
	M *testing.M
	// Parallel is the number of parallel tests. It has no effect if -parallel is given. The race
	// detector may lower it, and GOMAXPROCS may raise it. Default: 24. Lower it for packages whose
	// tests keep a processor busy.
	Parallel int
}

// Run runs the tests and returns the exit code.
func (x Tests) Run() int {
	flag.Parse()
	StoreInMemory()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", strconv.Itoa(max(x.parallel(), runtime.GOMAXPROCS(0)))) // cannot fail, because the flag exists
	}
	code := x.M.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster != nil {
		stopServers(shared.cluster.Servers)
		_ = os.RemoveAll(shared.dir) // only a temporary directory
	}
	return code
}

// three claims an account of the shared cluster and returns a function that connects to it.
func three(t testing.TB, limits broker.Limits) func(testing.TB) *broker.Broker {
	t.Helper()
	claimSlot(t)
	c, account := claim(t)
	await(t, "a meta leader", c.led)
	for _, s := range c.Servers {
		a, err := s.LookupAccount(account)
		if err == nil {
			err = a.EnableJetStream(nil, nil)
		}
		if err != nil {
			t.Fatalf("account %s: %v", account, err)
		}
	}
	// Streams left behind would keep electing leaders during other tests.
	t.Cleanup(func() { c.empty(t, account) })
	return func(t testing.TB) *broker.Broker {
		t.Helper()
		o := c.options(t)
		o.Connect, o.Limits = []nats.Option{nats.UserInfo(account, account)}, limits
		b := Open(t, o)
		await(t, "leaders of all streams", func() error { return led(t.Context(), b) })
		return b
	}
}

// led returns an error if a stream has no leader. A test whose first publish goes to such a stream
// would find JetStream unavailable.
func led(ctx context.Context, b *broker.Broker) error {
	streams := b.JetStream().ListStreams(ctx)
	for info := range streams.Info() {
		if info.Cluster != nil && info.Cluster.Leader == "" {
			return fmt.Errorf("stream %s has no leader", info.Config.Name)
		}
	}
	return streams.Err()
}

func (c *Cluster) empty(t testing.TB, account string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	nc, err := nats.Connect(c.Servers[0].ClientURL(), nats.UserInfo(account, account))
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Error(err)
		return
	}
	for {
		left, err := deleteStreams(ctx, js)
		if left == 0 && err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%d streams were not deleted: %v", left, err)
			return
		}
	}
}

// apiTimeout bounds one API request. If the meta leader changes, the answer is lost and the caller
// retries.
const apiTimeout = 5 * time.Second

func deleteStreams(ctx context.Context, js jetstream.JetStream) (n int, err error) {
	list, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	names := js.StreamNames(list)
	for name := range names.Name() {
		n++
		one, cancel := context.WithTimeout(ctx, apiTimeout)
		err = errors.Join(err, js.DeleteStream(one, name))
		cancel()
	}
	return n, errors.Join(err, names.Err())
}

// claim returns an unused account. The first call starts the servers.
func claim(t testing.TB) (*Cluster, string) {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.err = startShared()
	}
	if shared.err != nil {
		t.Fatalf("the shared cluster: %v", shared.err)
	}
	if shared.claimed == maxTests {
		t.Fatalf("more than %d tests want an account", maxTests)
	}
	shared.claimed++
	return shared.cluster, accountName(shared.claimed)
}

func (x Tests) parallel() int {
	n := cmp.Or(x.Parallel, inParallel)
	if raceDetector {
		n = min(n, maxParallelRace)
	}
	return n
}

func accountName(i int) string { return "test" + strconv.Itoa(i) }

func startShared() (err error) {
	if shared.dir, err = os.MkdirTemp("", "brokertest"); err != nil {
		return err
	}
	accounts := make([]string, maxTests)
	for i := range accounts {
		accounts[i] = accountName(i + 1)
	}
	dirs := make([]string, 3)
	for i := range dirs {
		if dirs[i], err = os.MkdirTemp(shared.dir, "n"); err != nil {
			return err
		}
	}
	servers, err := startServers(dirs, accounts)
	shared.cluster = &Cluster{Servers: servers}
	return err
}
