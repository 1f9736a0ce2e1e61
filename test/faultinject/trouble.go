package faultinject

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// refusal returns the handler for a fault that does not accept the request, or nil for other
// faults.
func (x *exchange) refusal() http.Handler {
	switch x.decision.Fault {
	case TooMany:
		if x.kind(2) == 1 {
			return http.HandlerFunc(refuseLikeGoogle)
		}
		return refuse(http.StatusTooManyRequests, nil)
	case TooManyLater:
		return refuse(http.StatusTooManyRequests, http.Header{"Retry-After": {"1"}})
	case BadGateway:
		return refuse(http.StatusBadGateway, nil)
	case Unavailable:
		return refuse(http.StatusServiceUnavailable, nil)
	case Redirect:
		return refuse(http.StatusTemporaryRedirect, http.Header{"Location": {movedPath + x.req.URL.RequestURI()}})
	case NotFound:
		return refuse(http.StatusNotFound, nil)
	case PollErrors:
		kinds := []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
		return refuse(kinds[x.kind(len(kinds))], nil)
	default:
		return nil
	}
}

func (x *exchange) kind(n int) int { return min(int(x.decision.Part*float64(n)), n-1) }

func refuse(status int, header http.Header) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"the upstream was told to answer %d","type":"fault","code":null}}`, status)
	}
}

// refuseLikeGoogle answers 429 with an error in a list and the wait in its details.
func refuseLikeGoogle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, `[{"error":{"code":429,"message":"the upstream was told to answer 429","status":"RESOURCE_EXHAUSTED",`+
		`"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"0.5s"}]}}]`)
}

// taskBehaviour returns, as JSON, the sandbox Behaviour for faults of the task itself and of its
// create's answer, or "" for other faults.
func (x *exchange) taskBehaviour() string {
	switch x.decision.Fault {
	case TaskNeverEnds:
		return `{"duration_ms":604800000}`
	case TaskLate:
		return fmt.Sprintf(`{"duration_ms":%d}`, x.wire.upstream.timing.Late.Milliseconds())
	case TaskFails:
		return `{"fail":"the upstream gave up"}`
	case TaskRefused:
		return `{"poll_status":400,"poll_code":"moderation_blocked"}`
	case TaskResultLate:
		return `{"result_after_ms":1000}`
	case NestedID:
		return `{"nested":true}`
	case TaskBackwards:
		return x.backwards()
	default:
		return ""
	}
}

// backwards returns a Behaviour with status words in the request's protocol.
func (x *exchange) backwards() string {
	path := x.req.URL.Path
	switch {
	case path == "/" || path == "/jimeng/":
		return `{"statuses":["generating","in_queue","generating","done"]}`
	case strings.Contains(path, "2video"):
		return `{"statuses":["processing","submitted","processing","succeed"]}`
	default:
		return `{"statuses":["in_progress","queued","in_progress","completed"]}`
	}
}

// plan returns how to send the sandbox's answer.
func (x *exchange) plan() plan {
	timing := x.wire.upstream.timing
	p := plan{part: x.decision.Part}
	switch x.decision.Fault {
	case Latency:
		p.wait = time.Duration(x.decision.Part * float64(timing.Latency))
	case Drip:
		p.drip = timing.Drip
	case CutAnswer:
		p.end = cut
	case StreamStall:
		p.end = stall
	case OversizedLine:
		p.end = oversized
	case OddEvents:
		p.odd = true
	default:
	}
	return p
}

// replaces reports whether the fault accepts the request and sends a different answer.
func (x *exchange) replaces() bool {
	switch x.decision.Fault {
	case InternalAfter, ResetAccepted, HTML, TruncatedJSON, Binary, GzipBomb, PollGarbage, NoChoice:
		return true
	default:
		return false
	}
}

// replacement returns the handler for the answer that is sent instead of held.
func (x *exchange) replacement(held *answer) http.HandlerFunc {
	fault := x.decision.Fault
	if fault == PollGarbage {
		fault = []Fault{HTML, TruncatedJSON, Binary}[x.kind(3)]
	}
	switch fault {
	case InternalAfter:
		return refuse(http.StatusInternalServerError, nil)
	case HTML:
		return body("text/html; charset=utf-8", "", []byte("<!DOCTYPE html><html><body><h1>It works!</h1></body></html>\n"))
	case TruncatedJSON:
		good := held.body.Bytes()
		return body(held.header.Get("Content-Type"), "", good[:x.plan().of(len(good))])
	case GzipBomb:
		return body("application/json", "gzip", gzipBomb())
	case NoChoice:
		return noChoice(held.header.Get("Content-Type"))
	default:
		return body("application/octet-stream", "", x.noise())
	}
}

// noChoice answers in the form that the client asked for.
func noChoice(contentType string) http.HandlerFunc {
	const chunk = `{"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"sandbox-chat","choices":[]}`
	if strings.HasPrefix(contentType, "text/event-stream") {
		return body(contentType, "", []byte("data: "+chunk+"\n\ndata: [DONE]\n\n"))
	}
	return body(contentType, "", []byte(strings.Replace(chunk, ".chunk", "", 1)))
}

func body(contentType, encoding string, b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		_, _ = w.Write(b) // finish detects a client that has disconnected
	}
}

// noise returns the same bytes for the same decision.
func (x *exchange) noise() []byte {
	r := rand.New(rand.NewPCG(uint64(x.decision.Part*(1<<53)), 0))
	b := make([]byte, 512)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// gzipBomb returns 256 MiB of spaces in compressed form. Spaces may precede any JSON. A gzip file
// may have many members, so gzipBomb compresses one member and repeats it.
var gzipBomb = sync.OnceValue(func() []byte {
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	_, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20)) // never fails in memory
	_ = w.Close()
	return bytes.Repeat(member.Bytes(), 256)
})
