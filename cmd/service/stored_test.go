package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// witness is a proxy of an upstream that counts request bodies by digest.
type witness struct {
	mu   sync.Mutex
	seen map[[sha256.Size]byte]int
}

func newWitness(t *testing.T, upstream string) (w *witness, base string) {
	t.Helper()
	target, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	w = &witness{seen: map[[sha256.Size]byte]int{}}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		w.mu.Lock()
		w.seen[sha256.Sum256(data)]++
		w.mu.Unlock()
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return w, server.URL
}

func (w *witness) times(digest [sha256.Size]byte) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[digest]
}

// TestRequestsLargerThanAMessage proves that a body larger than a NATS message reaches the upstream
// unchanged, by call and inbox, and that its upload is removed.
func TestRequestsLargerThanAMessage(t *testing.T) {
	t.Parallel()
	up := startSandbox(t, sandbox.Options{VideoDuration: 100 * time.Millisecond})
	seen, front := newWitness(t, up.URL())
	w := startService(t, front, func(c *config.Config) {
		c.NATS.URL, c.NATS.Replicas = brokertest.AloneOf(t, largestMessage).ClientURL(), 1
	})
	if w.nc.MaxPayload() != largestMessage {
		t.Fatalf("max_payload is %d", w.nc.MaxPayload())
	}
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	image := strings.Repeat("QUJD", largeBody/4)
	for i, way := range []string{"call", "inbox"} {
		video := fmt.Appendf(nil, `{"model": "sandbox-video", "prompt":"%s", "image": "data:image/png;base64,%s" }`, way, image)
		chat := fmt.Appendf(nil, `{"model": "sandbox-chat", "messages": [ {"role":"user","content":[{"type":"text","text":"%s"},{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]} ] }`, way, image)
		for kind, request := range map[subject.Kind]proto.Message{
			subject.Video: &genbusv1.VideoRequest{RequestId: way, Body: &genbusv1.VideoRequest_RawJson{RawJson: video}},
			subject.Chat:  &genbusv1.ChatRequest{RequestId: way, Body: &genbusv1.ChatRequest_RawJson{RawJson: chat}},
		} {
			ref := brokertest.Upload(t, w.js, "default", fmt.Sprint(kind, i), request)
			var message proto.Message = &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}}
			if kind == subject.Chat {
				message = &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Stored{Stored: ref}}
			}
			if way == "inbox" {
				w.fill(t, kind, message)
				continue
			}
			data, err := proto.Marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			if reply, err := w.nc.RequestWithContext(ctx, w.Names().Call(kind, "default"), data); err != nil || reply.Header.Get(subject.HeaderJobID) == "" {
				t.Fatalf("%s: %v, %v", kind, reply, err)
			}
		}
		for kind, body := range map[subject.Kind][]byte{subject.Video: video, subject.Chat: chat} {
			digest := sha256.Sum256(body)
			await(t, fmt.Sprintf("the %s by %s at the upstream", kind, way), func() bool { return seen.times(digest) == 1 })
		}
	}
	await(t, "all uploads to be removed", func() bool { return len(brokertest.Uploads(t, w.js, "default")) == 0 })
	await(t, "all jobs to end", func() bool {
		work, err := w.js.Stream(ctx, w.Names().Work())
		return err == nil && work.CachedInfo().State.Msgs == 0
	})
}
