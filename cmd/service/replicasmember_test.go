package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/genbus/genbus/test/faultinject"
)

// member is a replica process. It reaches NATS through its own link unless started directly.
type member struct {
	*faultinject.Process
	bed  *bed
	link *faultinject.Link
	base string // of HTTP
	grpc string
}

// memberOptions are the settings that differ between replicas.
type memberOptions struct {
	upstream string // base URL
	ackWait  time.Duration
	replicas int    // of the streams; 0 means 1
	more     string // top-level YAML
	direct   bool   // without a link
}

const memberConfig = `
nats: {replicas: %d}
upstreams:
  up: {base_url: %q}
routes:
  - {name: video, kind: video, models: ["*"], upstream: up, ack_wait: %[3]s, max_in_flight: 200, poll: {interval: 100ms}, timeouts: {create: 2s}}
  - {name: chat, kind: chat, models: ["*"], upstream: up, ack_wait: %[3]s}
%s
`

// start starts a replica and waits until it is ready.
func (b *bed) start(o memberOptions) *member {
	b.t.Helper()
	m := &member{bed: b, base: "http://" + freeAddr(b.t), grpc: freeAddr(b.t)}
	url := b.nats
	if !o.direct {
		var err error
		if m.link, err = faultinject.NewLink(strings.TrimPrefix(b.nats, "nats://")); err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() {
			if err := m.link.Close(); err != nil {
				b.t.Error(err)
			}
		})
		url = "nats://" + m.link.Addr()
	}
	dir := b.t.TempDir()
	file := filepath.Join(dir, "genbus.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, memberConfig, max(o.replicas, 1), o.upstream, o.ackWait, o.more), 0o600); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), bedPatience)
	defer cancel()
	var err error
	m.Process, err = faultinject.Start(ctx, faultinject.Spec{
		Path: os.Args[0], Args: []string{"serve"}, Log: filepath.Join(dir, "log"), Ready: m.ready,
		Env: append(os.Environ(), runAsService+"=1", "GENBUS_CONFIG="+file, "GENBUS_NATS_URL="+url, "GENBUS_LOG_LEVEL=info",
			"GENBUS_HTTP_ADDR="+strings.TrimPrefix(m.base, "http://"), "GENBUS_GRPC_ADDR="+m.grpc),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := m.Kill(); err != nil {
			b.t.Error(err)
		}
		if b.t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			b.t.Logf("the replica at %s:\n%s", m.base, log)
		}
	})
	return m
}

func (m *member) ready(ctx context.Context) error { return m.probe(ctx, "/readyz/jobs") }

func (m *member) serves(ctx context.Context) error { return m.probe(ctx, "/readyz") }

func (m *member) probe(ctx context.Context, path string) error {
	status, body, err := m.get(ctx, path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s says %d: %s", path, status, body)
	}
	return err
}

func (m *member) get(ctx context.Context, path string) (int, string, error) {
	r, err := m.do(ctx, http.MethodGet, path, "")
	return r.status, r.body, err
}

type response struct {
	status int
	header http.Header
	body   string
}

// word returns a top-level string of a JSON answer.
func (s response) word(name string) string {
	var fields map[string]any
	_ = json.Unmarshal([]byte(s.body), &fields)
	word, _ := fields[name].(string)
	return word
}

func (m *member) do(ctx context.Context, method, path, body string, header ...string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.base+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(data)}, err
}

// holdsNothing waits until a replica holds no job.
func (m *member) holdsNothing() {
	m.bed.t.Helper()
	m.bed.until("nothing is held at "+m.base, func(ctx context.Context) error {
		_, body, err := m.get(ctx, "/metrics")
		if err != nil {
			return err
		}
		seen := false
		for line := range strings.Lines(body) {
			if !strings.HasPrefix(line, "genbus_jobs_held_by_phase{") {
				continue
			}
			if seen = true; !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				return errors.New(line)
			}
		}
		if !seen {
			return errors.New("there is no such metric")
		}
		return nil
	})
}
