package upstream

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkCreate measures the cost of one connection per create over HTTP/1.1. The upstream
// answers at once and shares the machine. docs/performance.md has the figures.
func BenchmarkCreate(b *testing.B) {
	for _, scheme := range []string{"plain", "TLS"} {
		for _, reuse := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/reuse=%v", scheme, reuse), func(b *testing.B) {
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(w, `{"id":"t"}`)
				}))
				server.Config.ErrorLog = log.New(io.Discard, "", 0)
				if scheme == "TLS" {
					server.StartTLS()
				} else {
					server.Start()
				}
				defer server.Close()
				transport := NewTransport(TransportOptions{TLS: server.Client().Transport.(*http.Transport).TLSClientConfig})
				defer transport.CloseIdleConnections()
				ep := &Endpoint{Name: "test", BaseURL: server.URL, ReuseConnections: reuse, Transport: transport}
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if s := submit(b.Context(), ep, aCreate); s.Verdict != Accepted {
							b.Error(s.Err)
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
			})
		}
	}
}
