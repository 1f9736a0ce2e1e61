package main

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
)

// TestReadProc proves that readProc reads the resources of this process.
func TestReadProc(t *testing.T) {
	t.Parallel()
	got, err := readProc(os.Getpid())
	if err != nil || got.CPU < 0 || got.CPU > time.Hour || got.RSS < 1<<20 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := readProc(-1); err == nil {
		t.Error("a process that is not there was read")
	}
}

const exposition = `# HELP genbus_poll_lateness_seconds How late.
# TYPE genbus_poll_lateness_seconds histogram
genbus_poll_lateness_seconds_bucket{kind="video",route="a",le="0.01"} 10
genbus_poll_lateness_seconds_bucket{kind="video",route="a",le="0.1"} 90
genbus_poll_lateness_seconds_bucket{kind="video",route="a",le="+Inf"} 100
genbus_poll_lateness_seconds_bucket{kind="video",route="b, \"c\"}",le="0.01"} 0
genbus_poll_lateness_seconds_bucket{kind="video",route="b, \"c\"}",le="0.1"} 0
genbus_poll_lateness_seconds_bucket{kind="video",route="b, \"c\"}",le="+Inf"} 100
go_memstats_heap_alloc_bytes 1.5e+06
`

func TestParseExposition(t *testing.T) {
	t.Parallel()
	m, err := parseExposition(strings.NewReader(exposition))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.sum("go_memstats_heap_alloc_bytes"); got != 1.5e6 {
		t.Errorf("heap is %v", got)
	}
	h, err := m.histogram("genbus_poll_lateness_seconds", "route", "a")
	if err != nil {
		t.Fatal(err)
	}
	want := histogram{{0.01, 10}, {0.1, 90}, {math.Inf(1), 100}}
	if diff := cmp.Diff(want, h, cmp.AllowUnexported(bucket{})); diff != "" {
		t.Error(diff)
	}
	if h, err = m.histogram("genbus_poll_lateness_seconds"); err != nil || h.total() != 200 {
		t.Errorf("over all routes: %v, %v", h, err)
	}
	if _, err := m.histogram("missing"); err == nil {
		t.Error("a histogram that is not there was read")
	}
}

func TestQuantileInterpolatesWithinItsBucket(t *testing.T) {
	t.Parallel()
	h := histogram{{0.01, 10}, {0.1, 90}, {0.2, 100}, {math.Inf(1), 100}}
	for _, row := range []struct{ q, value, low, high float64 }{
		{0.05, 0.005, 0, 0.01},
		{0.5, 0.055, 0.01, 0.1},
		{0.9, 0.1, 0.01, 0.1},
		{0.99, 0.19, 0.1, 0.2},
		{1, 0.2, 0.1, 0.2},
	} {
		v, low, high := h.quantile(row.q)
		if math.Abs(v-row.value) > 1e-9 || low != row.low || high != row.high {
			t.Errorf("quantile(%v) = %v in %v-%v, want %v in %v-%v", row.q, v, low, high, row.value, row.low, row.high)
		}
	}
	if v, _, _ := (histogram{{1, 0}, {math.Inf(1), 0}}).quantile(0.5); !math.IsNaN(v) {
		t.Errorf("of nothing: %v", v)
	}
	beyond := histogram{{1, 1}, {math.Inf(1), 10}}
	if v, _, high := beyond.quantile(0.99); v != 1 || !math.IsInf(high, 1) {
		t.Errorf("beyond the last bound: %v, %v", v, high)
	}
	if got := h.below(0.1); got != 0.9 {
		t.Errorf("below 0.1: %v", got)
	}
	if got := h.below(0.15); !math.IsNaN(got) {
		t.Errorf("below a bound that is not there: %v", got)
	}
}

func TestHistogramSince(t *testing.T) {
	t.Parallel()
	before, after := histogram{{1, 5}, {math.Inf(1), 7}}, histogram{{1, 9}, {math.Inf(1), 20}}
	got, err := after.since(before)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(histogram{{1, 4}, {math.Inf(1), 13}}, got, cmp.AllowUnexported(bucket{})); diff != "" {
		t.Error(diff)
	}
	if _, err := after.since(before[:1]); err == nil {
		t.Error("histograms of different buckets were compared")
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(spread{Median: 2.5, Min: 1, Max: 4}, spreadOf([]float64{4, 1, 3, 2})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(spread{math.NaN(), math.NaN(), math.NaN()}, spreadOf(nil), cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	if got := spreadOf([]float64{1.2345, 120}).String(); got != "60.6 (1.23-120)" {
		t.Errorf("written as %q", got)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	tb := table{title: "A title"}
	tb.add("name", "value")
	tb.add("a long name", number(0.12345))
	var b bytes.Buffer
	if err := tb.write(&b); err != nil {
		t.Fatal(err)
	}
	want := "\nA title\n\n| name        | value |\n| ---         | ---   |\n| a long name | 0.123 |\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// TestRatiosAreOfTheSameRound proves that ratios are taken within a round. Ratios of medians would
// hide a slow round.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	t.Parallel()
	rounds := [][]observation{
		{{CPU: 10, FirstP50: 1}, {CPU: 12, FirstP50: 1}},
		{{CPU: 40, FirstP50: 0}, {CPU: 60, FirstP50: 1}},
	}
	got := compareTarget(scenario{Requests: 1}, "x", rounds, 1)
	if got.CPURatio.Min != 1.2 || got.CPURatio.Max != 1.5 {
		t.Errorf("CPU ratios %v", got.CPURatio)
	}
	if got.FirstRatio.Max != 1 {
		t.Errorf("a round without a base was divided: %v", got.FirstRatio)
	}
}

// TestConfigurationIsAccepted proves that the service accepts the configurations of bench.
func TestConfigurationIsAccepted(t *testing.T) {
	t.Parallel()
	for _, s := range []serviceSetup{
		{Upstream: "http://127.0.0.1:1", Kind: "video", InFlight: 120_000, Queued: 300_000, Poll: 10 * time.Second, Jitter: 0.1, AckWait: 3 * time.Minute, SyncAlways: true},
		{Upstream: "http://127.0.0.1:1", Kind: "video", InFlight: 4000, Queued: 1_000_000, Poll: time.Second},
		{Upstream: "http://127.0.0.1:1", Kind: "chat", InFlight: 256, Queued: 1000, InlineEvents: config.InlineEventsOn},
		{Upstream: "http://127.0.0.1:1", Kind: "video", InFlight: 4, Queued: 1000, Poll: time.Second, Routes: 1000, NATS: "nats://127.0.0.1:4222", SyncAlways: true},
		{Upstream: "http://127.0.0.1:1", Kind: "chat", InFlight: 256, Queued: 1000, NATS: "nats://127.0.0.1:4222,nats://127.0.0.1:4223", Copies: 3, SyncAlways: true},
	} {
		file, err := s.yaml("/data")
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Source{File: "genbus.yaml", ReadFile: func(string) ([]byte, error) { return file, nil }})
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		if r := c.Routes[0]; r.MaxInFlight != s.InFlight || r.AckWait != max(s.AckWait, time.Minute) || c.NATS.SyncAlways != s.SyncAlways || (c.Chat.InlineEvents == config.InlineEventsOn) != (s.InlineEvents == config.InlineEventsOn) {
			t.Errorf("read as %+v", r)
		}
		if len(c.Routes) != max(1, s.Routes) || c.NATS.URL != s.NATS || c.NATS.Replicas != max(1, s.Copies) {
			t.Errorf("%d routes, %+v", len(c.Routes), c.NATS)
		}
	}
}

// TestContentConfigurationIsAccepted proves the same for bench content.
func TestContentConfigurationIsAccepted(t *testing.T) {
	t.Parallel()
	for _, x := range (contentCommand{Size: maxFile, Parallel: maxParallel, GRPC: true, Archive: maxArchived}).transfers() {
		file, err := x.contentConfig("http://127.0.0.1:1", "/data")
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Source{File: "genbus.yaml", ReadFile: func(string) ([]byte, error) { return file, nil }})
		if err != nil {
			t.Fatalf("%s: %v\n%s", x.title, err, file)
		}
		if c.Routes[0].Archive != x.archive || x.archive && int64(c.Limits.ArchiveBytes) < x.size {
			t.Errorf("%s: read as %+v, %+v", x.title, c.Routes[0], c.Limits)
		}
	}
}

func TestContentSizes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args string
		good bool
	}{
		{"", true},
		{"--size 8MiB --parallel 1 --no-grpc --archive 0", true},
		{"--size 8MB", false},
		{"--size 1KiB", false},
		{"--archive 3GiB", false},
		{"--parallel 0", false},
	} {
		if _, err := contentArgs(t, row.args); (err == nil) != row.good {
			t.Errorf("%q: %v", row.args, err)
		}
	}
}

func contentArgs(t *testing.T, args string) (contentCommand, error) {
	t.Helper()
	var c cli
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"content"}, strings.Fields(args)...))
	return c.Content, err
}

// TestContentReadsWholeFiles proves that every transfer reads all of its bytes. It builds and runs
// the service.
func TestContentReadsWholeFiles(t *testing.T) {
	brokertest.Full(t, "builds the service")
	t.Parallel()
	c, err := contentArgs(t, "--size 8MiB --parallel 2 --archive 8MiB --timeout 2m")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]int64{}
	for _, x := range got.Transfers {
		read[x.Name] = x.Bytes
		if x.MBPerSecond <= 0 || x.DirectMB <= 0 || x.CPUPerGB < 0 || x.IdleRSS <= 0 || x.BaseRSS <= 0 || x.Growth != x.PeakRSS-x.BaseRSS || x.Growth < 0 {
			t.Errorf("measured %+v", x)
		}
	}
	const size = 8 << 20
	want := map[string]int64{
		"HTTP": size, "HTTP, 2 at once": 2 * size, "gRPC": size, "gRPC, 2 at once": 2 * size, "copy to the archive": size, "HTTP from the archive": size,
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Error(diff)
	}
}

// TestContentWantsEveryByte proves that a download of the wrong length is an error.
func TestContentWantsEveryByte(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(r.URL.Query().Get("file")))
	}))
	defer server.Close()
	s := &contentService{service: &service{http: server.Client()}}
	for _, row := range []struct {
		file    string
		n, size int64
		good    bool
	}{
		{"12345678", 8, 8, true},
		{"12345678", 4, 8, true},
		{"1234567", 8, 8, false},
		{"123", 4, 8, false},
		{"123456789", 8, 8, false},
		{"", 4, 8, false},
	} {
		if err := s.get(t.Context(), server.URL+"?file="+row.file, row.n, row.size); (err == nil) != row.good {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

func TestChatModel(t *testing.T) {
	t.Parallel()
	chunks, interval, err := parseChatModel(chatModel(100, 5*time.Millisecond))
	if err != nil || chunks != 100 || interval != 5*time.Millisecond {
		t.Errorf("%d, %s, %v", chunks, interval, err)
	}
	for _, bad := range []string{"", "bench", "bench:1", "bench:-1:0", "bench:x:0", "bench:1:x", "bench:1:99999999999", "other:1:1"} {
		if _, _, err := parseChatModel(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestLoadAgainstTheUpstream proves that the chat load measures every request and chunk of the
// bench upstream.
func TestLoadAgainstTheUpstream(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(answerChat))
	defer up.Close()
	for _, s := range []scenario{
		{Name: "json", Callers: 2, Requests: 6},
		{Name: "stream", Callers: 2, Requests: 4, Chunks: 7},
		{Name: "paced", Callers: 1, Requests: 1, Chunks: 3, Interval: time.Millisecond},
	} {
		got, err := s.load(t.Context(), up.Client(), up.URL)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.first) != s.Requests || len(got.delay) != s.Requests*s.Chunks {
			t.Errorf("%s: %d first, %d delays", s.Name, len(got.first), len(got.delay))
		}
	}
}

// TestLoadWantsEveryChunk proves that an incomplete stream is an error.
func TestLoadWantsEveryChunk(t *testing.T) {
	t.Parallel()
	s := scenario{Chunks: 2}
	one := chunkHead + "1" + chunkTail
	for text, good := range map[string]bool{
		one + one + lastChunk + doneBlock: true,
		one + one + lastChunk:             false,
		one + lastChunk + doneBlock:       false,
		one + one + one + doneBlock:       false,
		"":                                false,
	} {
		var seen timings
		if err := s.readStream(strings.NewReader(text), time.Now(), &seen); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	text := "genbus devel\n  HTTP  http://127.0.0.1:1\n  gRPC  127.0.0.1:2\n  NATS  nats://127.0.0.1:3\n\nTry it:\n"
	got := scan(strings.NewReader(text), []*regexp.Regexp{bannerHTTP, bannerNATS})
	if diff := cmp.Diff([]string{"http://127.0.0.1:1", "nats://127.0.0.1:3"}, got); diff != "" {
		t.Error(diff)
	}
	if got := scan(strings.NewReader("  HTTP  http://x\n"), []*regexp.Regexp{bannerHTTP, bannerNATS}); got != nil {
		t.Errorf("half a banner gave %v", got)
	}
}

// TestChildIsStopped proves that stop ends a child without a signal handler, and that a failed
// start reports its log.
func TestChildIsStopped(t *testing.T) {
	t.Parallel()
	c, found, err := startChild(context.Background(), t.TempDir(), "child", []string{"/bin/sh", "-c", "echo listening on http://x; exec sleep 60"},
		os.Environ(), bannerAddr)
	if err != nil {
		t.Fatal(err)
	}
	if found[0] != "http://x" || c.alive() != nil {
		t.Errorf("found %v, alive %v", found, c.alive())
	}
	c.stop()
	if c.alive() == nil {
		t.Error("it is still alive")
	}
	if _, _, err := startChild(context.Background(), t.TempDir(), "child", []string{"/bin/sh", "-c", "echo trouble >&2"}, os.Environ(), bannerAddr); err == nil ||
		!strings.Contains(err.Error(), "trouble") {
		t.Errorf("a child that ends at once: %v", err)
	}
}

// TestWriteJSON proves that results without a value, such as the delays of requests that are not
// streamed, become null.
func TestWriteJSON(t *testing.T) {
	t.Parallel()
	result := comparison{scenario: scenario{Name: "JSON", Callers: 1}, Targets: []comparedTarget{{Name: "proxy", CPU: spreadOf([]float64{2}), Delay: spreadOf(nil)}}}
	var got struct {
		Targets []struct {
			CPU   map[string]*float64 `json:"cpu_us_per_unit"`
			Delay map[string]*float64 `json:"delay_p50_us"`
		} `json:"targets"`
	}
	var out bytes.Buffer
	if err := writeJSON(&out, result); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || !strings.HasSuffix(out.String(), "}\n") {
		t.Fatalf("%v in %q", err, &out)
	}
	if cpu, delay := got.Targets[0].CPU["median"], got.Targets[0].Delay["median"]; cpu == nil || *cpu != 2 || delay != nil {
		t.Errorf("CPU %v, delay %v in %s", cpu, delay, &out)
	}
}
