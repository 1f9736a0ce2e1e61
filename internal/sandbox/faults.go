package sandbox

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// faultBook counts how often each name has met its fault.
type faultBook struct {
	mu    sync.Mutex
	used  map[string]int
	limit int
}

func newFaultBook(limit int) *faultBook {
	return &faultBook{used: map[string]int{}, limit: limit}
}

// claim uses up one of the first times faults of name; used is false when they
// are spent. ok is false when no more names can be remembered.
func (f *faultBook) claim(name string, times int) (used, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, known := f.used[name]
	if !known && len(f.used) >= f.limit {
		return false, false
	}
	if n >= times {
		return false, true
	}
	f.used[name] = n + 1
	return true, true
}

// door applies the faults of a GET request before next sees it.
func (s *Sandbox) door(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.behave.Load() == nil && len(r.Header["X-Sandbox"]) == 0 {
			next(w, r)
			return
		}
		b, err := s.behaviourFor(r, nil, "", nil)
		if err == nil {
			b, err = s.limited(b, "GET", cmp.Or(b.ID, r.URL.Path))
		}
		if err != nil {
			writeNested(w, http.StatusBadRequest, apiError{code: "invalid_request", message: err.Error(), kind: kindInvalid})
			return
		}
		if s.stopsHere(w, r, b, writeNestedRefusal) || s.stalls(w, r, b) {
			return
		}
		next(w, r)
	}
}

// stopsHere ends the request when b says that nothing is accepted.
func (s *Sandbox) stopsHere(w http.ResponseWriter, r *http.Request, b Behaviour, refuse func(http.ResponseWriter, Behaviour)) bool {
	switch {
	case b.Drop == DropBeforeAnswer:
		reset(w)
	case b.Status >= 300:
		if s.stalls(w, r, b) {
			return true
		}
		writeRefusalHeaders(w, r, b)
		refuse(w, b)
	default:
		return false
	}
	return true
}

func writeRefusalHeaders(w http.ResponseWriter, r *http.Request, b Behaviour) {
	if b.RetryAfter != "" {
		w.Header().Set("Retry-After", b.RetryAfter)
	}
	if b.Status < 400 {
		w.Header().Set("Location", r.URL.RequestURI())
	}
}

func writeNestedRefusal(w http.ResponseWriter, b Behaviour) {
	code, message := b.refusal()
	writeNested(w, b.Status, apiError{code: code, message: message, kind: kindNewAPI})
}

func writeFlatRefusal(w http.ResponseWriter, b Behaviour) {
	code, message := b.refusal()
	writeFlat(w, b.Status, code, message)
}

// stalls waits as b asks and says whether the connection was cut meanwhile.
func (s *Sandbox) stalls(w http.ResponseWriter, r *http.Request, b Behaviour) bool {
	wait := time.Duration(b.DelayMS) * time.Millisecond
	if b.Hang {
		wait = maxWait
	}
	if wait == 0 {
		return false
	}
	if s.wait(r.Context(), wait) && !b.Hang {
		return false
	}
	reset(w)
	return true
}

// wait sleeps for d and says whether it slept to the end.
func (s *Sandbox) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.closing:
		return false
	}
}

// reset cuts the connection with a TCP reset. Where the writer is no TCP
// connection the answer is aborted instead, which a client sees as an early end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // on failure the close below is an ordinary one
	}
	_ = conn.Close()
}
