package content_test

import (
	"io"
	"net/http"
	"runtime"
	"testing"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/content"
)

const large = 256 << 20

// serveLarge sends zeros, which costs the test little time and memory.
func serveLarge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "video/mp4")
	w.Header().Set("Content-Length", "268435456")
	for range large / len(block) {
		if _, err := w.Write(block[:]); err != nil {
			return
		}
	}
}

var block [64 << 10]byte

// watcher is a writer that tracks the peak size of the heap.
type watcher struct {
	written, next int64
	base, peak    uint64
}

func newWatcher() *watcher {
	runtime.GC()
	return &watcher{base: heap()}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.written += int64(len(p)); w.written >= w.next {
		w.next += 4 << 20
		w.peak = max(w.peak, heap())
	}
	return len(p), nil
}

func (w *watcher) growth() int64 { return int64(w.peak) - int64(w.base) }

// TestMemoryStaysSmall checks that reading content does not grow the heap with its size. It is not
// parallel because allocations of other tests would count.
func TestMemoryStaysSmall(t *testing.T) {
	w := newWorld(t)
	w.own.mux.HandleFunc("/file", serveLarge)
	w.foreign.mux.HandleFunc("/file", serveLarge)
	for name, c := range map[string]struct{ url, ask string }{
		"own": {w.own.URL, ""}, "foreign": {w.foreign.URL, ""}, "cut": {w.foreign.URL, "bytes=200000000-"},
	} {
		watch := newWatcher()
		f, err := w.reader.Open(t.Context(), w.at(c.url+"/file"), content.Request{Range: c.ask})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(watch, f.Body); err != nil || n != f.Length {
			t.Fatalf("%s: copied %d of %d bytes, %v", name, n, f.Length, err)
		}
		_ = f.Body.Close()
		if got := watch.growth(); got > 16<<20 {
			t.Errorf("%s: the heap grew by %d bytes", name, got)
		}
	}
}

// BenchmarkCopy downloads 256 MiB through a Reader, including the cost of the server. peak-B is the
// growth of the heap.
func BenchmarkCopy(b *testing.B) {
	w := newWorld(b)
	w.foreign.mux.HandleFunc("/file", serveLarge)
	b.SetBytes(large)
	b.ReportAllocs()
	watch := newWatcher()
	for b.Loop() {
		f, err := w.reader.Open(b.Context(), w.at(w.foreign.URL+"/file"), content.Request{})
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(watch, f.Body); err != nil || n != large {
			b.Fatalf("copied %d bytes, %v", n, err)
		}
		_ = f.Body.Close()
	}
	b.ReportMetric(float64(watch.growth()), "peak-B")
}

// BenchmarkArchive copies 256 MiB into the object store of the embedded server and out again.
// peak-B includes the server's own cache.
func BenchmarkArchive(b *testing.B) {
	w := newWorld(b)
	w.foreign.mux.HandleFunc("/file", serveLarge)
	bodies := broker.NewBodies(brokertest.Single(b))
	b.SetBytes(large)
	b.ReportAllocs()
	watch := newWatcher()
	for b.Loop() {
		ref, kind, err := w.reader.Archive(b.Context(), w.at(w.foreign.URL+"/file"), bodies, "t", "x", 0)
		if err != nil {
			b.Fatal(err)
		}
		f, err := content.OpenArchive(b.Context(), bodies, ref, kind, content.Request{})
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(watch, f.Body); err != nil || n != large {
			b.Fatalf("copied %d bytes, %v", n, err)
		}
		_ = f.Body.Close()
	}
	b.ReportMetric(float64(watch.growth()), "peak-B")
}
