package jimeng

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

type call struct {
	Target string // method and request URI
	Body   string
	Key    string // Idempotency-Key
}

func recorded(t *testing.T, opts upstream.Options, prefix, answer string, do func(*client)) call {
	t.Helper()
	got := make(chan call, 2)
	client := serve(t, opts, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got <- call{r.Method + " " + r.RequestURI, string(raw), r.Header.Get("Idempotency-Key")}
		_, _ = io.WriteString(w, answer)
	})
	client.ep.BaseURL += prefix
	do(client)
	if len(got) != 1 {
		t.Fatalf("the upstream got %d requests, want 1", len(got))
	}
	return <-got
}

func TestCreateRequest(t *testing.T) {
	t.Parallel()
	for prefix, path := range map[string]string{
		"": "/", "/": "/", "/v1": "/", "/jimeng": "/jimeng/", "/jimeng/": "/jimeng/", "/jimeng/v1/": "/jimeng/",
	} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			got := recorded(t, upstream.Options{}, prefix, `{"code":10000,"data":{"task_id":"t"}}`, func(c *client) {
				sub := c.Create(t.Context(), testCreate)
				if sub.Verdict != upstream.Accepted || sub.UpstreamID != "t" || sub.Ticket != "jimeng_t2v_v30" {
					t.Errorf("submission = %+v", sub)
				}
			})
			want := call{"POST " + path + "?Action=CVSync2AsyncSubmitTask&Version=2022-08-31", string(testCreate.Body.Bytes()), "video_1"}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestPollRequest(t *testing.T) {
	t.Parallel()
	got := recorded(t, upstream.Options{}, "/jimeng", `{"code":10000,"data":{"status":"in_queue"}}`, func(c *client) {
		if _, err := c.Poll(t.Context(), upstream.TaskRef{ID: `t"1`, Ticket: "jimeng_t2v_v30"}); err != nil {
			t.Error(err)
		}
	})
	want := call{"POST /jimeng/?Action=CVSync2AsyncGetResult&Version=2022-08-31", `{"req_key":"jimeng_t2v_v30","task_id":"t\"1"}`, ""}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestGatewayBody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want string }{
		"no parameters":    {`{"req_key":"k","prompt":"p"}`, `{"req_key":"k","prompt":"p","model":"k","metadata":{}}`},
		"parameters":       {`{"req_key":"k","prompt":"p","frames":121,"seed":12345678901234567890}`, `{"req_key":"k","prompt":"p","frames":121,"seed":12345678901234567890,"model":"k","metadata":{"frames":121,"seed":12345678901234567890}}`},
		"metadata wins":    {`{"req_key":"k","seed":1,"metadata":{"seed":2,"x":[1]}}`, `{"req_key":"k","seed":1,"metadata":{"seed":2,"x":[1]},"model":"k"}`},
		"metadata null":    {`{"req_key":"k","seed":1,"metadata":null}`, `{"req_key":"k","seed":1,"metadata":{"seed":1},"model":"k"}`},
		"metadata in text": {`{"req_key":"k","seed":1,"metadata":"{}"}`, `{"req_key":"k","seed":1,"metadata":"{}","model":"k"}`},
		"other model":      {`{"model":"old","req_key":"k"}`, `{"model":"k","req_key":"k","metadata":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := recorded(t, upstream.Options{Gateway: true}, "/jimeng", `{"id":"t"}`, func(client *client) {
				sub := client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(c.body))})
				if sub.Verdict != upstream.Accepted || sub.Ticket != "k" {
					t.Errorf("submission = %+v", sub)
				}
			})
			var a, b any
			if json.Unmarshal([]byte(got.Body), &a) != nil || json.Unmarshal([]byte(c.want), &b) != nil {
				t.Fatalf("not JSON: %s", got.Body)
			}
			if diff := cmp.Diff(b, a); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if strings.Contains(c.want, "12345678901234567890") && strings.Count(got.Body, "12345678901234567890") != 2 {
				t.Errorf("a number lost digits: %s", got.Body)
			}
		})
	}
}

// TestNotSent checks that invalid creates and polls do not reach the upstream.
func TestNotSent(t *testing.T) {
	t.Parallel()
	client := serve(t, upstream.Options{Gateway: true}, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
	for _, raw := range []string{``, `{}`, `[]`, `{"req_key":""}`, `{"req_key":7}`, `{"req_key":"` + strings.Repeat("k", 257) + `"}`, `{"req_key":"k","req_key":"l"}`} {
		sub := client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(raw))})
		if sub.Verdict != upstream.RefusedForGood || sub.Err == nil || sub.Err.Written || !sub.Err.Final {
			t.Errorf("%.40s: %+v", raw, sub)
		}
	}
	for _, ref := range []upstream.TaskRef{{}, {ID: "t"}, {Ticket: "k"}} {
		if _, err := client.Poll(t.Context(), ref); err == nil {
			t.Errorf("Poll(%+v) succeeded", ref)
		}
	}
}

func TestCreateRequestID(t *testing.T) {
	t.Parallel()
	client := serve(t, upstream.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"code":50412,"message":"Text Risk Not Pass","request_id":"2024"}`)
	})
	if e := client.Create(t.Context(), testCreate).Err; e == nil || e.RequestID != "2024" || !e.Reported {
		t.Errorf("error = %+v, want the vendor's request id", e)
	}
}

func TestPollRequestID(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	client := serve(t, upstream.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"code":50413,"data":null,"message":"x","request_id":"2024"}`)
	})
	status.Store(400)
	if state, err := client.Poll(t.Context(), testRef); err != nil || state.Err == nil || state.Err.RequestID != "2024" {
		t.Errorf("Poll = %+v, %v", state, err)
	}
	status.Store(503)
	_, err := client.Poll(t.Context(), testRef)
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.RequestID != "2024" || e.RetryAfter != 7*time.Second {
		t.Errorf("Poll error = %+v", err)
	}
}

func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	client := serve(t, upstream.Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 99\r\n\r\n{\"code\":50413,")
		_ = conn.Close()
	})
	if sub := client.Create(t.Context(), testCreate); sub.Verdict != upstream.Unknown || !sub.Err.Written || sub.Ticket != "" {
		t.Errorf("submission = %+v", sub)
	}
	if state, err := client.Poll(t.Context(), testRef); err == nil || state.Err != nil {
		t.Errorf("Poll = %+v, %v", state, err)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client.ep.BaseURL = "http://" + listener.Addr().String()
	_ = listener.Close()
	if sub := client.Create(t.Context(), testCreate); sub.Verdict != upstream.RefusedForNow || sub.Err.Written {
		t.Errorf("submission = %+v", sub)
	}
}

func TestCreateTimeoutAfterWrite(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	client := serve(t, upstream.Options{}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel(errors.New("create_timeout of 60s is over"))
		<-r.Context().Done()
	})
	if sub := client.Create(ctx, testCreate); sub.Verdict != upstream.Unknown || !strings.Contains(sub.Err.Message, "create_timeout") {
		t.Errorf("submission = %+v", sub)
	}
}
