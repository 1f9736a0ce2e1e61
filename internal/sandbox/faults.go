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

// faultBook counts the faults that each name has used.
type faultBook struct {
	mu    sync.Mutex
	used  map[string]int
	limit int
}

func newFaultBook(limit int) *faultBook {
	return &faultBook{used: map[string]int{}, limit: limit}
}

// claim uses up one of the faults of name. used is false if name has already used up its faults. ok
// is false if the book has no space for another name.
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

// door applies the faults of a GET request before calling next.
func (s *Sandbox) door(next http.HandlerFunc) http.HandlerFunc {
	return s.doorOf(refuseNested, next)
}

// doorOf is door with the error envelope of refuse.
func (s *Sandbox) doorOf(refuse refuser, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.readEnds(w, r, nil, r.URL.Path, refuse) {
			return
		}
		next(w, r)
	}
}

// readEnds applies the faults of a request that creates nothing, counted under name. It reports
// whether it ended the request.
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

// stopsHere ends the request if b drops or refuses it.
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

func writeRefusal(w http.ResponseWriter, r *http.Request, b Behaviour, refuse refuser) {
	if b.RetryAfter != "" {
		w.Header().Set("Retry-After", b.RetryAfter)
	}
	if b.Status >= 300 && b.Status < 400 {
		w.Header().Set("Location", r.URL.RequestURI())
	}
	refuse(w, b.Status, b.Code, cmp.Or(b.Message, "the sandbox was asked to answer "+strconv.Itoa(b.Status)))
}

// stalls waits for the delay in b. It reports whether it cut the connection.
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

// wait sleeps for d and reports whether it slept for the whole time.
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

// reset closes the connection with a TCP reset. If it cannot take over the connection, it aborts
// the answer, and the client sees a truncated response.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if this fails, Close does not reset the connection
	}
	_ = conn.Close()
}
