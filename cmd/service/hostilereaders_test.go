package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestReaders runs slowReaders and lateReaders concurrently, because slow readers mostly wait. With
// large crowds, no other test runs at the same time.
func TestReaders(t *testing.T) {
	parallelIfSmall(t)
	for name, test := range map[string]func(*testing.T){"slow": slowReaders, "late": lateReaders} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// slowReaders proves that a reader who stops reading a chat is disconnected and holds no more
// memory than limits.slow_reader_bytes and its connection buffers, while a normal reader gets
// everything.
func slowReaders(t *testing.T) {
	f := newFortress(t)
	id := f.queueChat(t, "verbose")
	grown := f.watchHeap()
	var following sync.WaitGroup
	following.Add(crowd)
	go func() {
		following.Wait()
		f.verbose.speak(200 * time.Millisecond)
	}()
	path := "/genbus/v1/chats/" + id + "/events"
	read := make(chan error, 1)
	const writeBound = 5 * time.Second // limits.write_timeout; the deadline is renewed up to a quarter of it in advance
	over := make(chan struct{})
	go func() {
		defer close(over)
		// A slow reader is disconnected when its connection buffers are full.
		err := f.readsAll(path)
		read <- err
		if err != nil {
			return
		}
		if err := f.awaitMetric(metricFollowed, crowd, writeBound*5/4+servedWithin); err != nil {
			t.Errorf("not all slow readers were cut off: %v", err)
		}
	}()
	f.besiege(f.http, func(conn *net.TCPConn) error {
		err := conn.SetReadBuffer(4 << 10)
		if err == nil {
			_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, hostileKey)
		}
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // the answer has started
		}
		following.Done()
		<-over // stop reading until the end
		return err
	})
	if err := <-read; err != nil {
		t.Errorf("the one who reads: %v", err)
	}
	const each = 4 // MiB: one for the reader, data in flight, and garbage not collected yet
	n := grown()
	t.Logf("the heap has grown by %.0f MiB", n)
	if n > crowd*each+aside {
		t.Errorf("the heap has grown by %.0f MiB for %d readers", n, crowd)
	}
}

// parallelIfSmall runs a test in parallel if its crowd is small. A large crowd moves gigabytes and
// would slow other tests.
func parallelIfSmall(t *testing.T) {
	t.Helper()
	if crowd < 10 {
		t.Parallel()
	}
}

// metricFollowed counts ended event streams of chats.
const metricFollowed = `genbus_http_requests_total{code="200",route="GET /genbus/v1/chats/{id}/events"}`

// awaitMetric waits until a metric of the service reaches a value.
func (f *fortress) awaitMetric(name string, least float64, patience time.Duration) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var n float64
	for until := time.Now().Add(patience); time.Now().Before(until); <-tick.C {
		// The metric does not exist before the first count.
		if n, _ = f.metric(name); n >= least {
			return nil
		}
	}
	return fmt.Errorf("%s is %.0f, not %.0f, after %s", name, n, least, patience)
}

// queueChat submits a queued chat and returns its job ID.
func (f *fortress) queueChat(t *testing.T, model string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.http+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+model+`","stream":true,"messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+hostileKey)
	r.Header.Set("Prefer", "respond-async")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("status %d", resp.StatusCode)
	}
	return resp.Header.Get("Genbus-Job-Id")
}

// readsAll follows a chat to its end. It resumes if it was cut off as a slow reader, which can
// happen on a busy machine, or because the broker was too slow.
func (f *fortress) readsAll(path string) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Minute)
	defer cancel()
	last := ""
	for range 50 {
		all, err := f.follow(ctx, path, last)
		if err != nil {
			return err
		}
		if strings.Contains(all, "genbus.chat.completed.v1") {
			return nil
		}
		if err := fmt.Errorf("it ended early: %s", all[max(0, len(all)-300):]); !strings.Contains(all, "slow_reader") && !starved(err) {
			return err
		}
		if at := strings.LastIndex(all, "\nid: "); at >= 0 {
			last, _, _ = strings.Cut(all[at+len("\nid: "):], "\n")
		}
	}
	return errors.New("it was cut off again and again")
}

func (f *fortress) follow(ctx context.Context, path, last string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.http+path, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+hostileKey)
	r.Header.Set("Last-Event-ID", last)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return string(all), err
}

// lateReaders proves that many readers who replay a long chat do not starve other calls.
func lateReaders(t *testing.T) {
	f := newFortress(t)
	f.verbose.speak(20 * time.Millisecond)
	path := "/genbus/v1/chats/" + f.queueChat(t, "verbose") + "/events"
	if err := f.readsAll(path); err != nil {
		t.Fatal(err)
	}
	const watched = 15 * time.Second
	begin := time.Now()
	f.besiege(f.http, func(conn *net.TCPConn) error {
		if err := conn.SetReadBuffer(4 << 10); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, hostileKey); err != nil {
			return err
		}
		hold := time.NewTimer(watched)
		defer hold.Stop()
		<-hold.C
		return nil
	})
	// Any call still running then was started before the readers ended.
	if late := time.Since(begin) - watched; late > readWithin {
		t.Errorf("the last call of somebody else took %s", late)
	}
}
