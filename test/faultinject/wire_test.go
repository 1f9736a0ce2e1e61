package faultinject

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func seedWhere(t *testing.T, so func(seed uint64) bool) uint64 {
	t.Helper()
	for seed := range uint64(10000) {
		if so(seed) {
			return seed
		}
	}
	t.Fatal("no seed does")
	return 0
}

// TestResendsAreCounted proves that the ledger has both posts when net/http resends a POST with an
// Idempotency-Key after a reused connection fails. The caller sees one call.
func TestResendsAreCounted(t *testing.T) {
	t.Parallel()
	mix := Mix{OpCreate: {ResetBefore: 0.5}}
	seed := seedWhere(t, func(seed uint64) bool {
		return mix.Decide(seed, OpCreate, "job1", 1).Fault == ResetBefore && mix.Decide(seed, OpCreate, "job1", 2).Fault == None
	})
	u := newUpstream(t, UpstreamOptions{Seed: seed})
	c := newClient(t, nil)
	if r := get(t, c, u.URL()+"/v1/models"); r.err != nil { // opens a connection for reuse
		t.Fatal(r.err)
	}
	if err := u.SetMix(mix); err != nil {
		t.Fatal(err)
	}
	// net/http needs a body that it can read again.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.URL()+paths[OpCreate], bytes.NewReader([]byte(videoBody)))
	if err != nil {
		t.Fatal(err)
	}
	if r := send(c, req, "job1"); r.err != nil || r.status != http.StatusOK {
		t.Fatalf("net/http did not resend: %+v", r)
	}
	posts := u.Ledger()
	if len(posts) != 2 || posts[0].Fault != ResetBefore || posts[0].Accepted || posts[1].Nth != 2 || !posts[1].Accepted {
		t.Errorf("the ledger holds %+v", posts)
	}
}

// TestRedirectsAreCounted proves that a POST sent again after a 307 is in the ledger.
func TestRedirectsAreCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		redirect func(*http.Request, []*http.Request) error
		want     []string
	}{
		"follows":  {nil, []string{"/v1/video/generations redirect false", "/faultinject/moved/v1/video/generations  true"}},
		"does not": {func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, []string{"/v1/video/generations redirect false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, _ := newTestUpstream(t, always(OpCreate, Redirect))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.URL()+paths[OpCreate], strings.NewReader(videoBody))
			if err != nil {
				t.Fatal(err)
			}
			if r := send(newClient(t, c.redirect), req, "job1"); r.err != nil {
				t.Fatal(r.err)
			}
			var got []string
			for _, p := range u.Ledger() {
				got = append(got, fmt.Sprint(p.Path, " ", p.Fault, " ", p.Accepted))
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("the ledger holds %q, want %q", got, c.want)
			}
		})
	}
}

func rawConn(t *testing.T, u *Upstream) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(u.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func request(key, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: upstream\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
		paths[OpCreate], key, len(body), body)
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func TestPipelinedRequestsAreCounted(t *testing.T) {
	t.Parallel()
	u, _ := newTestUpstream(t, nil)
	conn := rawConn(t, u)
	write(t, conn, request("a", videoBody)+request("b", videoBody)+request("c", videoBody))
	in := bufio.NewReader(conn)
	for range 3 {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v", resp.StatusCode, err)
		}
	}
	if got := len(u.Ledger()); got != 3 {
		t.Errorf("%d posts", got)
	}
}

// TestHalfRequestsAreCounted proves that a request is a post once its headers have arrived,
// whatever happens to its body, but not before.
func TestHalfRequestsAreCounted(t *testing.T) {
	t.Parallel()
	u, _ := newTestUpstream(t, nil)
	whole := request("job1", videoBody)
	headless := rawConn(t, u)
	write(t, headless, whole[:40])
	headless.Close()
	half := rawConn(t, u)
	write(t, half, whole[:len(whole)-3])
	half.Close()
	if p := only(t, u); p.Key != "job1" || p.Accepted || p.Answered || p.Status != 0 {
		t.Errorf("the ledger holds %+v", p)
	}
	if got := u.sandbox.Stats().Creates; got != 0 {
		t.Errorf("the sandbox has seen %d creates", got)
	}
}

// TestAPostWithoutItsBody proves that a post without any body is distinguished from one with part
// of its body.
func TestAPostWithoutItsBody(t *testing.T) {
	t.Parallel()
	for name, some := range map[string]int{"none of it": 0, "a byte of it": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, _ := newTestUpstream(t, nil)
			whole := request("job1", videoBody)
			conn := rawConn(t, u)
			write(t, conn, whole[:strings.Index(whole, "\r\n\r\n")+4+some])
			conn.Close()
			if p := only(t, u); p.Accepted || p.Bodiless != (some == 0) {
				t.Errorf("the ledger holds %+v", p)
			}
		})
	}
}

// TestMarkersOfUnreadBodies proves that the ledger has the marker of a body that arrived but was
// not read.
func TestMarkersOfUnreadBodies(t *testing.T) {
	t.Parallel()
	for _, fault := range []Fault{ResetBefore, ResetDuring} {
		u, _ := newTestUpstream(t, always(OpCreate, fault))
		conn := rawConn(t, u)
		write(t, conn, request("job1", `{"prompt":"mark=early","rest":"`+strings.Repeat("x", 100)+`"}`))
		if _, err := conn.Read(make([]byte, 1)); !isCut(err) {
			t.Errorf("%s: %v", fault, err)
		}
		if p := only(t, u); p.Marker != "early" {
			t.Errorf("%s: the ledger holds %+v", fault, p)
		}
	}
}

// TestKeylessAreCountedByMarker proves that inline chats, which have no key, are counted by marker.
func TestKeylessAreCountedByMarker(t *testing.T) {
	t.Parallel()
	mix := Mix{OpChat: {ResetBefore: 0.5}}
	u, c := newTestUpstream(t, mix)
	for n := 1; n <= 4; n++ {
		r := post(t, c, u.URL()+paths[OpChat], "", chatBody)
		if want := mix.Decide(1, OpChat, "m1", n).Fault; (want == ResetBefore) != isCut(r.err) {
			t.Errorf("chat %d: %v, want %q", n, r.err, want)
		}
	}
	for i, p := range u.Ledger() {
		if p.Marker != "m1" || p.Nth != i+1 {
			t.Errorf("the ledger holds %+v", p)
		}
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	u, _ := newTestUpstream(t, nil)
	conn := rawConn(t, u)
	head, _, _ := strings.Cut(request("job1", videoBody), "\r\n\r\n")
	write(t, conn, head+"\r\nExpect: 100-continue\r\n\r\n")
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	write(t, conn, videoBody)
	if p := only(t, u); !p.Accepted {
		t.Errorf("the ledger holds %+v", p)
	}
}

func TestEveryProtocolIsSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		create, body, poll, pollBody string
	}{
		{"/v1/video/generations", videoBody, "/v1/video/generations/ID", ""},
		{"/v1/videos", `{"model":"sandbox-videos","prompt":"mark=m1"}`, "/v1/videos/ID", ""},
		{"/v1/videos/text2video", `{"model_name":"sandbox-kling","prompt":"mark=m1"}`, "/v1/videos/text2video/ID", ""},
		{"/kling/v1/videos/text2video", `{"model_name":"sandbox-kling","prompt":"mark=m1"}`, "/kling/v1/videos/text2video/ID", ""},
		{
			"/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31", `{"req_key":"sandbox-jimeng","prompt":"mark=m1"}`,
			"/?Action=CVSync2AsyncGetResult&Version=2022-08-31", `{"req_key":"sandbox-jimeng","task_id":"ID"}`,
		},
	} {
		t.Run(c.create, func(t *testing.T) {
			t.Parallel()
			u, client := newTestUpstream(t, always(OpPoll, NotFound))
			r := post(t, client, u.URL()+c.create, "job1", c.body)
			p := only(t, u)
			if !p.Accepted || p.Op != OpCreate || p.TaskID == "" || !strings.Contains(r.body, p.TaskID) || p.Marker != "m1" {
				t.Fatalf("got %+v\nledger %+v", r, p)
			}
			poll := strings.Replace(u.URL()+c.poll, "ID", p.TaskID, 1)
			if c.pollBody == "" {
				r = get(t, client, poll)
			} else {
				r = post(t, client, poll, "", strings.Replace(c.pollBody, "ID", p.TaskID, 1))
			}
			if r.status != http.StatusNotFound || u.Polls() != 1 || len(u.Ledger()) != 1 {
				t.Errorf("the poll: %+v; %d polls, %d posts", r, u.Polls(), len(u.Ledger()))
			}
		})
	}
}
