package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// proxyCommand is the baseline for the chat path.
type proxyCommand struct {
	Addr     string `default:"127.0.0.1:0" help:"Address to listen on."`
	Upstream string `required:"" help:"Base URL to forward to."`
}

// Run serves until ctx ends.
func (c proxyCommand) Run(ctx context.Context) error {
	target, err := url.Parse(c.Upstream)
	if err != nil {
		return err
	}
	return serve(ctx, c.Addr, wholeBody(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		BufferPool:    newBufferPool(),
		Transport: &http.Transport{
			MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, IdleConnTimeout: time.Minute, DisableCompression: true,
		},
	}))
}

// wholeBody reads the whole request before it is forwarded. Otherwise, one stream in a few hundred
// is cut off, because the server closes the body at the first byte of the answer while the
// transport may still be reading it.
func wholeBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		next.ServeHTTP(w, r)
	})
}

type bufferPool struct{ pool sync.Pool }

const copyBuffer = 32 << 10

func newBufferPool() *bufferPool {
	return &bufferPool{sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}}
}

// Get takes a buffer.
func (p *bufferPool) Get() []byte { return *p.pool.Get().(*[]byte) } //nolint:forcetypeassert // the pool contains nothing else

// Put returns a buffer.
func (p *bufferPool) Put(b []byte) { p.pool.Put(&b) }
