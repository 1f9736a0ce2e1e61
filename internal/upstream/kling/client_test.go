package kling

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

const accepts = `{"code":0,"message":"SUCCEED","request_id":"r","data":{"task_id":"t","task_status":"submitted"}}`

type seen struct{ Method, URI, Auth, Body string }

func record(answer string) (http.HandlerFunc, <-chan seen) {
	requests := make(chan seen, 8)
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- seen{r.Method, r.RequestURI, r.Header.Get("Authorization"), string(body)}
		_, _ = io.WriteString(w, answer)
	}, requests
}

func TestCreateRequest(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ body, kind string }{
		"text":        {`{ "model_name":"m", "prompt":"p" , "x":1.0}`, "text2video"},
		"image":       {`{"model_name":"m","image":"https://example.com/a.png"}`, "image2video"},
		"image_tail":  {`{"model_name":"m","image_tail":"aGk="}`, "image2video"},
		"empty image": {`{"model_name":"m","prompt":"p","image":"","image_tail":null}`, "text2video"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler, requests := record(accepts)
			sub := serve(t, handler).Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(c.body))})
			if sub.Verdict != upstream.Accepted || sub.UpstreamID != "t" || sub.Ticket != c.kind {
				t.Errorf("submission = %+v", sub)
			}
			sent := strings.TrimSuffix(c.body, "}") + `,"external_task_id":"video_1"}`
			want := seen{"POST", "/kling/v1/videos/" + c.kind, "Bearer sk-test-0123456789", sent}
			if diff := cmp.Diff(want, <-requests); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPollRequest(t *testing.T) {
	t.Parallel()
	for ticket, want := range map[string]string{
		"":            "/kling/v1/videos/text2video/a%2Fb%3Fc",
		"text2video":  "/kling/v1/videos/text2video/a%2Fb%3Fc",
		"image2video": "/kling/v1/videos/image2video/a%2Fb%3Fc",
	} {
		handler, requests := record(accepts)
		state, err := serve(t, handler).Poll(t.Context(), upstream.TaskRef{ID: "a/b?c", Ticket: ticket})
		if err != nil || state.Progression != upstream.Queued {
			t.Errorf("Poll = %+v, %v", state, err)
		}
		if got := <-requests; got.URI != want || got.Method != http.MethodGet {
			t.Errorf("ticket %q: %s %s, want GET %s", ticket, got.Method, got.URI, want)
		}
	}
	handler, requests := record(accepts)
	if _, err := serve(t, handler).Poll(t.Context(), upstream.TaskRef{}); err == nil || len(requests) != 0 {
		t.Errorf("Poll without an id: %v, %d requests", err, len(requests))
	}
}

func TestGatewayBody(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ body, want string }{
		"plain": {
			`{"model_name":"m","prompt":"p","image":"u","duration":"10","cfg_scale":0.50}`,
			`{"model_name":"m","prompt":"p","image":"u","duration":"10","cfg_scale":0.50,"external_task_id":"video_1","metadata":{"duration":"10","cfg_scale":0.50,"external_task_id":"video_1"},"model":"m"}`,
		},
		"metadata wins": {
			`{"metadata":{"z":1,"external_task_id":"theirs","duration":"5"},"model_name":"m","model":"other","duration":"10","mode":"pro"}`,
			`{"metadata":{"z":1,"duration":"5","mode":"pro","external_task_id":"video_1"},"model_name":"m","model":"m","duration":"10","mode":"pro","external_task_id":"video_1"}`,
		},
		"metadata as text": {
			`{"model_name":"m","mode":"pro","metadata":"{\"duration\":\"5\"}"}`,
			`{"model_name":"m","mode":"pro","metadata":{"duration":"5","mode":"pro","external_task_id":"video_1"},"external_task_id":"video_1","model":"m"}`,
		},
		"metadata is nothing": {
			`{"model_name":"m","mode":"pro","metadata":null}`,
			`{"model_name":"m","mode":"pro","metadata":{"mode":"pro","external_task_id":"video_1"},"external_task_id":"video_1","model":"m"}`,
		},
		"metadata is no object": {
			`{"model_name":"m","mode":"pro","metadata":"[1"}`,
			`{"model_name":"m","mode":"pro","metadata":{"mode":"pro","external_task_id":"video_1"},"external_task_id":"video_1","model":"m"}`,
		},
		"no model": {`{"prompt":"p","x":1}`, `{"prompt":"p","x":1,"external_task_id":"video_1","metadata":{"x":1,"external_task_id":"video_1"}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler, requests := record(`{"id":"task_1","status":"queued"}`)
			client := newClient(endpoint(t, handler), upstream.Options{Gateway: true})
			for range 2 { // the same for every submission
				sub := client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(c.body))})
				if sub.Verdict != upstream.Accepted {
					t.Fatalf("submission = %+v", sub)
				}
				if got := <-requests; got.Body != c.want {
					t.Errorf("body = %s\n      want %s", got.Body, c.want)
				}
			}
		})
	}
	t.Run("no JSON", func(t *testing.T) {
		t.Parallel()
		handler, requests := record(accepts)
		client := newClient(endpoint(t, handler), upstream.Options{Gateway: true})
		sub := client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"a`))})
		if sub.Verdict != upstream.RefusedForGood || sub.Err.Written || len(requests) != 0 {
			t.Errorf("submission = %+v, %d requests", sub, len(requests))
		}
	})
}

// signed returns a client that signs, and its signer. The clock advances by a second per call,
// because a fixed time would yield the same token again.
func signed(t *testing.T, handler http.HandlerFunc) (*client, *signer) {
	t.Helper()
	var seconds atomic.Int64
	s := NewJWT("test-access-key", "test-secret-key").(*signer)
	s.now = func() time.Time { return time.Unix(1700000000+seconds.Add(1), 0) }
	ep := endpoint(t, handler)
	ep.Key, ep.Auth = "", s
	return newClient(ep, upstream.Options{}), s
}

// answerInTurn sends the answers in order and then repeats the last.
func answerInTurn(answers ...upstreamtest.Case) (http.HandlerFunc, <-chan seen) {
	requests := make(chan seen, 8)
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		next := answers[min(len(requests), len(answers)-1)]
		requests <- seen{r.Method, r.RequestURI, r.Header.Get("Authorization"), string(body)}
		w.WriteHeader(next.Status)
		_, _ = w.Write(next.Body)
	}, requests
}

func TestStaleTokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	stale := func(status int, code string) upstreamtest.Case {
		return upstreamtest.Case{Status: status, Body: []byte(`{"code":` + code + `,"message":"x","request_id":"r"}`)}
	}
	good := upstreamtest.Case{Status: 200, Body: []byte(accepts)}
	cases := map[string]struct {
		answers  []upstreamtest.Case
		verdict  upstream.Verdict
		requests int
	}{
		"not valid yet":        {[]upstreamtest.Case{stale(401, "1003"), good}, upstream.Accepted, 2},
		"expired":              {[]upstreamtest.Case{stale(401, "1004"), good}, upstream.Accepted, 2},
		"expired twice":        {[]upstreamtest.Case{stale(401, "1004"), stale(401, "1004"), good}, upstream.RefusedForGood, 2},
		"then ambiguous":       {[]upstreamtest.Case{stale(401, "1004"), stale(504, "5002"), good}, upstream.Unknown, 2},
		"bad token":            {[]upstreamtest.Case{stale(401, "1002"), good}, upstream.RefusedForGood, 1},
		"expired, by status":   {[]upstreamtest.Case{{Status: 401}, good}, upstream.Unknown, 1},
		"expired, not refused": {[]upstreamtest.Case{stale(500, "1004"), good}, upstream.RefusedForGood, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler, requests := answerInTurn(c.answers...)
			client, _ := signed(t, handler)
			sub := client.Create(t.Context(), aCreate)
			if sub.Verdict != c.verdict || len(requests) != c.requests {
				t.Fatalf("verdict %v (%v) after %d requests, want %v after %d", sub.Verdict, sub.Err, len(requests), c.verdict, c.requests)
			}
			first := <-requests
			if c.requests == 1 {
				return
			}
			if second := <-requests; second.Auth == first.Auth || second.Body != first.Body || second.URI != first.URI {
				t.Errorf("second request = %+v after %+v, want only another token", second, first)
			}
		})
	}
}

// TestStaleTokenWithABearerKey checks that nothing is sent twice if there is no token to renew.
func TestStaleTokenWithABearerKey(t *testing.T) {
	t.Parallel()
	handler, requests := answerInTurn(upstreamtest.Case{Status: 401, Body: []byte(`{"code":1004,"message":"x"}`)})
	sub := serve(t, handler).Create(t.Context(), aCreate)
	if sub.Verdict != upstream.RefusedForGood || len(requests) != 1 {
		t.Errorf("verdict %v after %d requests", sub.Verdict, len(requests))
	}
}

func TestPollRenewsAStaleToken(t *testing.T) {
	t.Parallel()
	handler, requests := answerInTurn(
		upstreamtest.Case{Status: 401, Body: []byte(`{"code":1004,"message":"expired"}`)}, upstreamtest.Case{Status: 200, Body: []byte(accepts)})
	client, _ := signed(t, handler)
	_, err := client.Poll(t.Context(), upstream.TaskRef{ID: "t"})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Code != "1004" {
		t.Fatalf("Poll error = %v, want 1004", err)
	}
	if _, err := client.Poll(t.Context(), upstream.TaskRef{ID: "t"}); err != nil {
		t.Fatal(err)
	}
	if first, second := <-requests, <-requests; first.Auth == second.Auth {
		t.Error("the second poll has the stale token")
	}
}

func TestCreateWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	t.Run("after writing", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		var requests atomic.Int64
		client := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			cancel(errors.New("create_timeout of 60s is over"))
			<-r.Context().Done()
		})
		sub := client.Create(ctx, aCreate)
		if sub.Verdict != upstream.Unknown || !sub.Err.Written || !strings.Contains(sub.Err.Message, "create_timeout of 60s is over") {
			t.Errorf("submission = %+v", sub)
		}
		if n := requests.Load(); n != 1 {
			t.Errorf("the upstream got %d requests, want 1", n)
		}
	})
	t.Run("before writing", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
		if sub := client.Create(ctx, aCreate); sub.Verdict != upstream.RefusedForNow || sub.Err.Written {
			t.Errorf("submission = %+v", sub)
		}
	})
	t.Run("no key", func(t *testing.T) {
		t.Parallel()
		ep := endpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
		ep.Auth = NewJWT("a", "")
		if sub := newClient(ep, upstream.Options{}).Create(t.Context(), aCreate); sub.Verdict != upstream.RefusedForNow || sub.Err.Written {
			t.Errorf("submission = %+v", sub)
		}
	})
}

// TestRequestID checks that the vendor's request ID is read from the body, since the vendor sends
// no header.
func TestRequestID(t *testing.T) {
	t.Parallel()
	handler, _ := record(`{"code":1303,"message":"parallel task over resource pack limit","request_id":"r-1"}`)
	if sub := serve(t, handler).Create(t.Context(), aCreate); sub.Err == nil || sub.Err.RequestID != "r-1" {
		t.Errorf("submission = %+v", sub)
	}
	handler, _ = record(`{"code":0,"request_id":"r-2","data":{"task_id":"t","task_status":"failed"}}`)
	state, err := serve(t, handler).Poll(t.Context(), upstream.TaskRef{ID: "t"})
	if err != nil || state.Err == nil || state.Err.RequestID != "r-2" || state.Err.HTTPStatus != 200 {
		t.Errorf("Poll = %+v, %v", state.Err, err)
	}
}

func TestPollErrorsNeverFailATask(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckPollErrors(t, subject, outcomeCases())
}
