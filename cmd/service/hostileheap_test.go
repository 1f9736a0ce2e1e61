package main

import (
	"bufio"
	"fmt"
	"net/http"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"
)

// watchHeap samples the used heap until its result is called, which returns the maximum in bytes.
func watchHeap(t *testing.T) (most func() uint64) {
	t.Helper()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var most uint64
		for {
			select {
			case <-tick.C:
				metrics.Read(sample)
				most = max(most, sample[0].Value.Uint64())
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	return func() uint64 { close(stop); return <-peak }
}

type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (t *tally) count(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]int{}
	}
	t.n[name]++
}

func (t *tally) of(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[name]
}

// checkMetrics looks for answers that indicate a failure of the service, whether a client read them
// or not.
func (s *siege) checkMetrics() {
	s.t.Helper()
	resp, err := http.Get(s.base + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		switch {
		case tooSlow && (strings.Contains(line, `code="503"`) || strings.Contains(line, `code="Unavailable"`)): // see starved
		case strings.HasPrefix(line, "genbus_http_requests_total{") && strings.Contains(line, `code="5`) && !s.upstreamsFault(line):
			s.t.Errorf("answered: %s", line)
		case strings.HasPrefix(line, "genbus_grpc_requests_total{") && !s.upstreamsFault(line) && !s.ownWords(line):
			for _, code := range []string{"Internal", "Unknown", "DataLoss", "Unavailable"} {
				if strings.Contains(line, `code="`+code+`"`) {
					s.t.Errorf("answered: %s", line)
				}
			}
		}
	}
}

// upstreamsFault reports whether a hostile upstream could cause the answer: inline chats and
// downloads, except internal errors of genbus.
func (s *siege) upstreamsFault(line string) bool {
	called := strings.Contains(line, "/v1/chat/completions") || strings.Contains(line, "/content") || strings.Contains(line, "ChatCompletion") || strings.Contains(line, "DownloadVideo")
	return called && !strings.Contains(line, `code="500"`) && !strings.Contains(line, `code="Internal"`) && !strings.Contains(line, `code="DataLoss"`)
}

// ownWords reports whether grpc-go produced all Internal answers of a method.
func (s *siege) ownWords(line string) bool {
	var method string
	var n int
	_, err := fmt.Sscanf(strings.NewReplacer(`"`, " ", "}", " ").Replace(line), "genbus_grpc_requests_total{code= Internal ,method= %s %d", &method, &n)
	return err == nil && n == s.own.of(method)
}
