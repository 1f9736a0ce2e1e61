package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/test/hostile"
)

// hostileSeed seeds the inputs. A failure names the entrance and number of its input, which
// hostile.At(hostileSeed, entrance, number) reproduces.
const hostileSeed = 20261122

// Limits of a siege for the whole process, including the attackers.
const (
	maxLiveHeap        = 1500 << 20 // bytes at any time during the siege
	maxHeapGrowth      = 96 << 20   // bytes of growth after the siege; the broker keeps half of it as buffers
	maxGoroutineGrowth = 40         // growth after the siege
)

// Secrets of the tenant and the upstream, and a marker in prompts. None of them may leak.
const (
	hostileKey         = "hostile-tenant-key-8c1f0b6ad2e94753"
	hostileAccess      = "ak-hostile"
	hostileSecret      = "hostile-pair-secret-51d0c7b2e6fa4983"
	hostileUpstreamKey = "hostile-upstream-key-0f4d7a9c3b5e4126"
	hostileMarker      = "zebramark7f3a9"
)

type siege struct {
	*world
	t      *testing.T
	up     *hostileUpstream
	target hostile.Target
	book   *logBook
	sent   atomic.Int64
	// own counts, by method, answers that grpc-go itself reports as Internal.
	own tally
	// contents counts the statuses of downloads.
	contents tally
}

// newSiege starts a service with the sandbox for valid requests and a hostile upstream for others.
func newSiege(t *testing.T, change ...func(*config.Config)) *siege {
	t.Helper()
	brokertest.Full(t, "sends thousands of hostile inputs")
	s := &siege{t: t, up: newHostileUpstream(t), book: &logBook{secrets: []string{hostileKey, hostileSecret, hostileUpstreamKey, hostileMarker}}}
	sandboxURL := startSandbox(t, sandbox.Options{VideoDuration: 50 * time.Millisecond, ChunkInterval: time.Millisecond}).URL()
	cfg := config.Default()
	cfg.NATS.DataDir, cfg.NATS.Listen, cfg.NATS.SyncAlways = t.TempDir(), "127.0.0.1:0", false
	cfg.HTTP.Addr, cfg.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	cfg.APIKeys = []config.APIKey{{
		Tenant: config.DefaultTenant, KeyEnv: "KEY", Key: config.NewSecret(hostileKey),
		AccessKey: hostileAccess, SecretKeyEnv: "SECRET", SecretKey: config.NewSecret(hostileSecret),
	}}
	if err := cfg.AddSandbox(sandboxURL); err != nil {
		t.Fatal(err)
	}
	s.up.addTo(cfg)
	for i := range cfg.Routes {
		if cfg.Routes[i].Kind == config.KindVideo {
			cfg.Routes[i].Poll.Interval = 30 * time.Millisecond
		}
	}
	for _, f := range change {
		f(cfg)
	}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	s.start(cfg)
	s.target = hostile.Target{Authorization: "Bearer " + hostileKey, AccessKey: hostileAccess, SecretKey: hostileSecret, Marker: hostileMarker}
	return s
}

func (s *siege) start(cfg *config.Config) {
	s.t.Helper()
	log, err := telemetry.NewLogger(s.book, "debug", telemetry.FormatText)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	running, err := service.New(ctx, cfg, log, "test")
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- running.Run(ctx) }()
	s.world = &world{Service: running, base: "http://" + running.HTTPAddr().String()}
	s.t.Cleanup(func() {
		s.close(s.t)
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	s.connect(s.t)
}

// send distributes the input numbers from 0 to n-1, or a share of them, over several senders. do
// returns the name of the input and the error found in the answer.
func (s *siege) send(entrance string, n, senders int, do func(in *hostile.Source, number int) (string, error)) {
	s.t.Helper()
	n /= hostileShare
	begin := time.Now()
	var slowest slowInput
	var next atomic.Int64
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || s.t.Context().Err() != nil {
					return
				}
				s.sent.Add(1)
				began := time.Now()
				name, err := do(hostile.At(hostileSeed, entrance, i), i*hostileShare)
				switch {
				case err != nil && starved(err):
					s.t.Logf("%s, input %d: the broker did not answer in time", entrance, i)
				case err != nil:
					s.t.Errorf("%s, input %d: %s: %v", entrance, i, name, err)
				}
				slowest.note(name, time.Since(began))
			}
		})
	}
	all.Wait()
	s.t.Logf("%-12s %5d inputs, %s, the slowest %s", entrance, n, time.Since(begin).Round(time.Millisecond), slowest.text())
}

// starved reports whether an answer only says that the broker was too slow under the race detector,
// which slows the embedded server too. Without the detector it returns false.
func starved(err error) bool {
	text := err.Error()
	return tooSlow && (strings.Contains(text, "JetStream is unavailable") || strings.Contains(text, `"check":"jetstream"`))
}

type slowInput struct {
	mu   sync.Mutex
	name string
	took time.Duration
}

func (s *slowInput) note(name string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if took > s.took {
		s.name, s.took = name, took
	}
}

func (s *slowInput) text() string {
	return fmt.Sprintf("%s (%s)", s.took.Round(time.Millisecond), s.name)
}

// TestTenThousandHostileInputs proves that every hostile input, over each ingress or from the
// upstream, is answered or disconnected in time. None may break the service, lose data, leak
// secrets or leave memory behind.
func TestTenThousandHostileInputs(t *testing.T) {
	s := newSiege(t)
	s.goodOnes()
	s.awaitEmpty()
	s.target.Videos, s.target.Chats = s.jobs()
	before := measure()
	peak := watchHeap(t)

	var entrances sync.WaitGroup
	for _, attack := range []func(){s.attackHTTP, s.attackGRPC, s.attackNATS, s.attackFromUpstream} {
		entrances.Go(attack)
	}
	entrances.Wait()

	if most := peak(); most > maxLiveHeap {
		t.Errorf("the heap had %d MiB at its most; the limit is %d", most>>20, maxLiveHeap>>20)
	} else {
		t.Logf("%d inputs; the heap had %d MiB at its most", s.sent.Load(), most>>20)
	}
	if n := int64(10_000); s.sent.Load() < n && hostileShare == 1 {
		t.Errorf("only %d inputs were sent, want %d", s.sent.Load(), n)
	}
	s.awaitEmpty()
	s.ready()
	s.goodOnes()
	s.awaitEmpty()
	s.noGrowth(before)
	s.checkMetrics()
	s.up.check(t)
	if n := s.contents.of("403"); n < 20 && hostileShare == 1 {
		t.Errorf("only %d downloads were blocked: hardly an address was tried", n)
	}
	for _, line := range s.book.wrong() {
		t.Errorf("the log says: %.600s", line)
	}
}

func (s *siege) ready() {
	s.t.Helper()
	for _, path := range []string{"/healthz", "/readyz", "/readyz/jobs"} {
		resp, err := http.Get(s.base + path)
		if err != nil {
			s.t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			s.t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// awaitEmpty waits until no job is running and no request is in the inbox.
func (s *siege) awaitEmpty() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*answerWithin)
	defer cancel()
	for _, stream := range []string{s.Names().Requests(), s.Names().Work()} {
		st, err := s.js.Stream(ctx, stream)
		if err != nil {
			s.t.Fatal(err)
		}
		var info *jetstream.StreamInfo
		for info == nil || info.State.Msgs > 0 {
			if info != nil && broker.Wait(ctx, 50*time.Millisecond) != nil {
				s.t.Fatalf("%s does not become empty: %v", stream, leftIn(s, stream))
			}
			if info, err = st.Info(ctx, jetstream.WithSubjectFilter(">")); err != nil {
				s.t.Fatalf("%s does not become empty: %v", stream, leftIn(s, stream))
			}
		}
	}
}

// leftIn describes the first few subjects left in a stream.
func leftIn(s *siege, stream string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 5*time.Second)
	defer cancel()
	st, err := s.js.Stream(ctx, stream)
	if err != nil {
		return err.Error()
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return err.Error()
	}
	var left []string
	for name := range info.State.Subjects {
		if left = append(left, fmt.Sprintf("%q", name)); len(left) == 5 {
			break
		}
	}
	return fmt.Sprintf("%d messages, such as %s", info.State.Msgs, strings.Join(left, ", "))
}

// footprint is the memory and goroutine count of the process.
type footprint struct {
	heap       uint64
	goroutines int
}

func measure() footprint {
	http.DefaultClient.CloseIdleConnections()
	var m runtime.MemStats
	for range 3 { // pools release their contents in the second collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return footprint{m.HeapAlloc, runtime.NumGoroutine()}
}

// noGrowth waits until the process has returned to its former footprint.
func (s *siege) noGrowth(before footprint) {
	s.t.Helper()
	var now footprint
	await(s.t, "the end of what the inputs began", func() bool {
		now = measure()
		return now.goroutines <= before.goroutines+maxGoroutineGrowth && now.heap <= before.heap+maxHeapGrowth
	})
	s.t.Logf("heap %d MiB before, %d after; goroutines %d before, %d after", before.heap>>20, now.heap>>20, before.goroutines, now.goroutines)
}

func (s *siege) jobs() (videos, chats []string) {
	s.t.Helper()
	st, err := s.js.Stream(s.t.Context(), s.Names().Tasks())
	if err != nil {
		s.t.Fatal(err)
	}
	for kind, into := range map[subject.Kind]*[]string{subject.Video: &videos, subject.Chat: &chats} {
		pattern := s.Names().Prefix() + ".task." + string(kind) + ".>"
		info, err := st.Info(s.t.Context(), jetstream.WithSubjectFilter(pattern))
		if err != nil {
			s.t.Fatal(err)
		}
		for name := range info.State.Subjects {
			*into = append(*into, name[strings.LastIndexByte(name, '.')+1:])
		}
	}
	return videos, chats
}
