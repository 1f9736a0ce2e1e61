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

// mostTests is how many tests of a package may have an account of the shared
// cluster.
const mostTests = 100

// shared is the cluster that the tests of a package share. Three servers take
// seconds until they have elected each other, which dozens of tests would wait
// for one after the other.
var shared struct {
	mu      sync.Mutex
	cluster *Cluster
	dir     string
	err     error
	claimed int
}

const (
	// inParallel is how many tests run at a time by default, or more where there are more
	// processors: they wait for timers of the broker more than for a processor.
	inParallel = 24
	// mostInParallelRace is how many may with the race detector: there they wait for a
	// processor too, and many more of them only wait for longer, up to their timeouts.
	mostInParallelRace = 6
)

// Tests runs the tests of a package, several at a time and with their files in memory, and
// then stops the cluster that they share.
// It is what goleak.VerifyTestMain takes:
//
//	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
type Tests struct {
	M *testing.M
	// Parallel is how many run at a time, unless -parallel says it, and fewer with the race
	// detector. Default: 24. Fewer are for packages whose tests need a processor.
	Parallel int
}

// Run gives the exit code.
func (x Tests) Run() int {
	flag.Parse()
	StoreInMemory()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		_ = flag.Set("test.parallel", strconv.Itoa(max(x.parallel(), runtime.GOMAXPROCS(0)))) // there is one
	}
	code := x.M.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster != nil {
		stopServers(shared.cluster.Servers)
		_ = os.RemoveAll(shared.dir) // below the system's directory for such things
	}
	return code
}

// three claims an account of the shared cluster, and gives what connects to it.
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
	// Streams left over would go on to elect leaders during other tests.
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

// led is an error while a stream has no leader: a test that begins with a publish to one that
// the service writes to rarely would find that JetStream is unavailable.
func led(ctx context.Context, b *broker.Broker) error {
	streams := b.JetStream().ListStreams(ctx)
	for info := range streams.Info() {
		if info.Cluster != nil && info.Cluster.Leader == "" {
			return fmt.Errorf("stream %s has no leader", info.Config.Name)
		}
	}
	return streams.Err()
}

// empty deletes the streams of an account.
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

// apiTimeout bounds one request of the API. Its answer is lost if the meta leader changes
// meanwhile, so it is made again.
const apiTimeout = 5 * time.Second

// deleteStreams deletes all streams, and returns how many there were.
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

// claim gives an account that no test has had, starting the servers for the first.
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
	if shared.claimed == mostTests {
		t.Fatalf("more than %d tests want an account", mostTests)
	}
	shared.claimed++
	return shared.cluster, accountName(shared.claimed)
}

// parallel is how many tests run at a time.
func (x Tests) parallel() int {
	n := cmp.Or(x.Parallel, inParallel)
	if raceDetector {
		n = min(n, mostInParallelRace)
	}
	return n
}

func accountName(i int) string { return "test" + strconv.Itoa(i) }

func startShared() (err error) {
	if shared.dir, err = os.MkdirTemp("", "brokertest"); err != nil {
		return err
	}
	accounts := make([]string, mostTests)
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
