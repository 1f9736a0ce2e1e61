package sandbox

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strconv"
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
	return s.doorOf(refuseNested, next)
}

// doorOf is door for paths whose errors have an envelope of their own.
func (s *Sandbox) doorOf(refuse refuser, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.readEnds(w, r, nil, r.URL.Path, refuse) {
			return
		}
		next(w, r)
	}
}

// readEnds applies the faults of a request that creates nothing, counted under
// name, and says whether it has answered.
func (s *Sandbox) readEnds(w http.ResponseWriter, r *http.Request, body []byte, name string, refuse refuser) bool {
	if s.behave.Load() == nil && len(r.Header["X-Sandbox"]) == 0 {
		return false
	}
	b, err := s.behaviourFor(r, body, "", nil)
	if err == nil {
		b, err = s.limited(b, "GET", cmp.Or(b.ID, name))
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "", err.Error())
		return true
	}
	return s.stopsHere(w, r, b, refuse) || s.stalls(w, r, b)
}

// stopsHere ends the request when b says that nothing is accepted.
func (s *Sandbox) stopsHere(w http.ResponseWriter, r *http.Request, b Behaviour, refuse refuser) bool {
	switch {
	case b.Drop == DropBeforeAnswer:
		reset(w)
	case b.refuses():
		if s.stalls(w, r, b) {
			return true
		}
		writeRefusal(w, r, b, refuse)
	default:
		return false
	}
	return true
}

// writeRefusal answers the error that b asks for.
func writeRefusal(w http.ResponseWriter, r *http.Request, b Behaviour, refuse refuser) {
	if b.RetryAfter != "" {
		w.Header().Set("Retry-After", b.RetryAfter)
	}
	if b.Status >= 300 && b.Status < 400 {
		w.Header().Set("Location", r.URL.RequestURI())
	}
	refuse(w, b.Status, b.Code, cmp.Or(b.Message, "the sandbox was asked to answer "+strconv.Itoa(b.Status)))
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
