package pool_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/upstream"
)

const usageAsked = `{"include_usage":true}`

// text answers with plain text.
func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// optionsRefusals lists how strict servers refuse stream_options.
var optionsRefusals = map[string]http.HandlerFunc{
	"OpenAI":              answer(400, `{"error":{"message":"Unknown parameter: 'stream_options'.","type":"invalid_request_error","param":"stream_options","code":"unknown_parameter"}}`),
	"an old OpenAI":       answer(400, `{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error","param":null,"code":null}}`),
	"vLLM":                answer(400, `{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]","type":"BadRequestError","param":null,"code":400}`),
	"FastAPI":             answer(422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted","input":{"include_usage":true}}]}`),
	"Mistral":             answer(422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error","param":null,"code":null}`),
	"Gemini":              answer(400, `{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"stream_options\": Cannot find field.","status":"INVALID_ARGUMENT"}}`),
	"a Go server":         text(400, `json: unknown field "stream_options"`),
	"TGI":                 text(422, "Failed to deserialize the JSON body into the target type: unknown field `stream_options`, expected one of `model`, `messages` at line 1 column 90"),
	"an error in a 200":   answer(200, `{"error":{"message":"stream_options is not supported","type":"invalid_request_error"}}`),
	"an error event":      events(`{"error":{"message":"include_usage is not supported","type":"invalid_request_error"}}`),
	"nothing named":       answer(400, `{"error":{"message":"Bad Request"}}`),
	"additional property": answer(400, `{"error":{"message":"must NOT have additional properties","type":"invalid_request_error","param":null,"code":"invalid_request"}}`),
}

// otherRefusals lists refusals that have another cause.
var otherRefusals = map[string]http.HandlerFunc{
	"another member": answer(400, `{"error":{"message":"messages must not be empty","type":"invalid_request_error","param":"messages","code":null}}`),
	"policy":         answer(400, `{"error":{"message":"no","code":"content_filter"}}`),
	"length":         answer(400, `{"error":{"message":"too long","code":"context_length_exceeded"}}`),
	"key":            answer(401, `{"error":{"message":"no"}}`),
	"limit":          answer(429, `{"error":{"message":"no"}}`),
	"size":           answer(413, `{"error":{"message":"no"}}`),
	"an error":       answer(500, `{"error":{"message":"no"}}`),
	"a page":         answer(400, `<html>no</html>`),
}

// strict answers with refusal if the request has stream_options, and with next otherwise.
func strict(refusal, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if raw, _ := io.ReadAll(r.Body); bytes.Contains(raw, []byte(`"stream_options"`)) {
			refusal(w, r)
			return
		}
		next(w, r)
	}
}

func askingForUsage() pool.ChatRequest {
	r := request(true)
	r.AskForUsage = true
	return r
}

func (f *fleet) stream(t *testing.T, r pool.ChatRequest) error {
	t.Helper()
	s, err := f.chat.Stream(t.Context(), r)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = collect(s)
	return err
}

// asked returns the stream_options of each call.
func (f *fleet) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var options []string
	for _, c := range f.calls {
		options = append(options, c.streamOptions)
	}
	return options
}

func (f *fleet) told() int {
	return strings.Count(f.log.String(), "stopped asking upstream for token usage")
}

// TestStrictUpstreamsAreNotAskedForUsage proves that a refused request for usage is repeated once
// without it, and that the pool remembers the refusal until a reload.
func TestStrictUpstreamsAreNotAskedForUsage(t *testing.T) {
	t.Parallel()
	for name, refusal := range optionsRefusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a": strict(refusal, streams), "b": streams}, nil, nil)
			for range 2 {
				if err := f.stream(t, askingForUsage()); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, f.called(), "a", "a", "a")
			expect(t, f.asked(), usageAsked, "", "")
			if f.told() != 1 || strings.Contains(f.log.String(), "permitted") {
				t.Errorf("logged %s", f.log.String())
			}
			f.pool.Reload(f.ups, config.Retry{})
			if err := f.stream(t, askingForUsage()); err != nil {
				t.Fatal(err)
			}
			expect(t, f.asked()[3:], usageAsked, "")
		})
	}
}

// TestAnErrorAboutUsageIsNotRepeated proves that an answer that does not prove a refusal is not
// repeated, but teaches the pool.
func TestAnErrorAboutUsageIsNotRepeated(t *testing.T) {
	t.Parallel()
	unhandled := answer(500, `{"detail":"create() got an unexpected keyword argument 'stream_options'"}`)
	f := newFleet(t, byKey{"a": strict(unhandled, streams)}, nil, nil)
	if err := f.stream(t, askingForUsage()); err == nil {
		t.Error("no error")
	}
	if err := f.stream(t, askingForUsage()); err != nil {
		t.Error(err)
	}
	expect(t, f.asked(), usageAsked, "")
}

// TestARefusalThatQuotesThePrompt proves that the pool remembers a refusal whose message names the
// option only if the repeated call succeeds.
func TestARefusalThatQuotesThePrompt(t *testing.T) {
	t.Parallel()
	quoting := answer(400, `{"error":{"message":"cannot answer \"what are stream_options?\"","type":"invalid_request_error","param":null}}`)
	for name, c := range map[string]struct {
		refusal, repeated http.HandlerFunc
		want              []string
	}{
		"refused again":          {quoting, quoting, []string{usageAsked, "", usageAsked, ""}},
		"another refusal":        {quoting, answer(422, `{"error":{"message":"no"}}`), []string{usageAsked, "", usageAsked, ""}},
		"no answer":              {quoting, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []string{usageAsked, "", usageAsked, ""}},
		"a failure":              {quoting, answer(500, `{"error":{"message":"no"}}`), []string{usageAsked, "", usageAsked, ""}},
		"nothing named, a proxy": {optionsRefusals["nothing named"], answer(502, `<html>`), []string{usageAsked, "", usageAsked, ""}},
		"a failure that quotes":  {answer(500, `{"error":{"message":"cannot answer \"stream_options?\""}}`), quoting, []string{usageAsked, usageAsked}},
		"named by the param":     {optionsRefusals["OpenAI"], quoting, []string{usageAsked, "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a": strict(c.refusal, c.repeated)}, nil, nil)
			for range 2 {
				if err := f.stream(t, askingForUsage()); err == nil {
					t.Error("no error")
				}
			}
			expect(t, f.asked(), c.want...)
		})
	}
}

// TestOtherRefusalsAreNotRepeated proves that a refusal with another cause ends the call.
func TestOtherRefusalsAreNotRepeated(t *testing.T) {
	t.Parallel()
	for name, refusal := range otherRefusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a": refusal}, nil, nil)
			if _, ok := errors.AsType[*upstream.Error](f.stream(t, askingForUsage())); !ok {
				t.Error("no error")
			}
			expect(t, f.asked(), usageAsked)
		})
	}
}

// TestAnUpstreamThatAcceptsUsage proves that a bad request changes nothing about what the pool
// knows, and that it is repeated only until the upstream has accepted a request for usage.
func TestAnUpstreamThatAcceptsUsage(t *testing.T) {
	t.Parallel()
	vague, named := optionsRefusals["nothing named"], optionsRefusals["OpenAI"]
	answers := []http.HandlerFunc{vague, vague, streams, vague, streams, named, streams, streams}
	f := newFleet(t, byKey{"a": func(w http.ResponseWriter, r *http.Request) {
		next := answers[0]
		answers = answers[1:]
		next(w, r)
	}}, nil, nil)
	for i, fails := range []bool{true, false, true, false, false, false} {
		if err := f.stream(t, askingForUsage()); (err != nil) != fails {
			t.Errorf("chat %d: %v", i, err)
		}
	}
	expect(t, f.asked(), usageAsked, "", usageAsked, usageAsked, usageAsked, usageAsked, "", "")
	expectMetrics(t, f.metrics, `upstream_requests_total{op="chat",status="4xx",upstream="a",verdict="failed"} 4`,
		`upstream_requests_total{op="chat",status="2xx",upstream="a",verdict="answered"} 4`)
	if f.told() != 1 {
		t.Errorf("logged %s", f.log.String())
	}
}

// TestCallersOptionsAreTheirs proves that the members that the caller sent are not dropped.
func TestCallersOptionsAreTheirs(t *testing.T) {
	t.Parallel()
	for options, want := range map[string][]string{
		`{"include_usage":true}`:  {`{"include_usage":true}`},
		`{"include_usage":false}`: {`{"include_usage":true}`, `{"include_usage":false}`},
		`{"x":1}`:                 {`{"x":1,"include_usage":true}`, `{"x":1}`},
	} {
		f := newFleet(t, byKey{"a": strict(optionsRefusals["OpenAI"], streams)}, nil, nil)
		r := askingForUsage()
		r.Body = body.Parse(slices.Concat([]byte(`{"model":"m","stream_options":`), []byte(options), []byte(`}`)))
		if err := f.stream(t, r); err == nil {
			t.Error("the refusal is lost")
		}
		expect(t, f.asked(), want...)
	}
}
