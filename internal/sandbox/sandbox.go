package sandbox

import (
	"cmp"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Models that the sandbox serves.
const (
	ModelVideo          = "sandbox-video"
	ModelVideoEnveloped = "sandbox-video-enveloped"
	ModelChat           = "sandbox-chat"
	ModelChatFast       = "sandbox-chat-fast"
	ModelVideos         = "sandbox-videos"
	ModelVideosGateway  = "sandbox-videos-gateway"
	ModelKling          = "sandbox-kling" // prefix of model_name
	ModelKlingGateway   = "sandbox-kling-gateway"
	ModelJimeng         = "sandbox-jimeng" // prefix of req_key; sandbox_jimeng works too
)

const maxBody = 64 << 20

// Options configure a Sandbox. The zero value is usable.
type Options struct {
	// VideoDuration is the time from create to completed. Default 2s.
	VideoDuration time.Duration
	// ChunkInterval is the time between two chunks of sandbox-chat. Default 20ms.
	ChunkInterval time.Duration
	// ChunkCount is the number of content chunks of a chat reply. Default 20.
	ChunkCount int
	// Key, if set, is the only bearer key accepted below /v1/ and on the vendors' paths. The
	// vendors' signatures and tokens are never verified. Without a Key, every request is accepted.
	Key string
	// RepeatCreates makes a repeated Idempotency-Key create a second task, as many real upstreams
	// do. By default, the answer is the first task.
	RepeatCreates bool
	// MaxTasks limits the number of stored tasks and of stored keys. Creates beyond the limit are
	// refused with 503. Default 1048576.
	MaxTasks int
}

func (o Options) withDefaults() Options {
	o.VideoDuration = cmp.Or(o.VideoDuration, 2*time.Second)
	o.ChunkInterval = cmp.Or(o.ChunkInterval, 20*time.Millisecond)
	o.ChunkCount = cmp.Or(o.ChunkCount, 20)
	o.MaxTasks = cmp.Or(o.MaxTasks, 1<<20)
	return o
}

// Sandbox is the fake upstream as an http.Handler. It starts no goroutines and is safe for
// concurrent use.
type Sandbox struct {
	opts  Options
	mux   *http.ServeMux
	start time.Time

	tasks     *taskStore
	videoKeys *keyLedger
	chatKeys  *keyLedger
	faults    *faultBook
	protocols *tally
	accounts  *tally
	behave    atomic.Pointer[BehaviourFunc]
	count     counters

	closeOnce sync.Once
	closing   chan struct{} // closed by Close; ends every hang and delay
	active    sync.RWMutex  // read-locked by each request, so that Server.Close can wait
}

// BehaviourFunc returns the behaviour of one request, or nil to use the behaviour in the request.
// body is nil for GET requests and must not be retained.
type BehaviourFunc func(r *http.Request, body []byte) *Behaviour

// New returns a Sandbox.
func New(opts Options) *Sandbox {
	opts = opts.withDefaults()
	s := &Sandbox{
		opts:      opts,
		mux:       http.NewServeMux(),
		start:     time.Now(),
		tasks:     newTaskStore(opts.MaxTasks),
		videoKeys: newKeyLedger(opts.MaxTasks),
		chatKeys:  newKeyLedger(opts.MaxTasks),
		faults:    newFaultBook(opts.MaxTasks),
		protocols: newTally(opts.MaxTasks),
		accounts:  newTally(opts.MaxTasks),
		closing:   make(chan struct{}),
	}
	s.routes()
	return s
}

func (s *Sandbox) routes() {
	s.mux.HandleFunc("POST /v1/video/generations", s.authorised(s.creates(primary)))
	s.mux.HandleFunc("GET /v1/video/generations/{id}", s.authorised(s.door(s.getVideo)))
	s.routeVideos()
	s.routeKling("")
	s.routeKling("/kling")
	s.mux.HandleFunc("POST /{$}", s.callJimeng)
	s.mux.HandleFunc("POST /jimeng/{$}", s.callJimeng)
	s.mux.HandleFunc("POST /v1/chat/completions", s.authorised(s.createChat))
	s.mux.HandleFunc("GET /v1/models", s.authorised(s.door(s.listModels)))
	s.mux.HandleFunc("GET /v1/models/{id...}", s.authorised(s.door(s.getModel)))
	s.mux.HandleFunc("GET /files/{name}", s.countFile(s.door(s.getFile)))
	s.mux.HandleFunc("GET /stats", s.getStats)
	s.mux.HandleFunc("GET /tasks", s.getTasks)
	s.mux.HandleFunc("GET /readyz", getReady)
	s.mux.HandleFunc("/", invalidURL)
}

// getReady answers like genbus, so that "genbus health --url" works for both. A running sandbox is
// always ready.
func getReady(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"status":"ready"}`))
}

// ServeHTTP answers one request.
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.RLock()
	defer s.active.RUnlock()
	s.count.requests.Add(1)
	s.mux.ServeHTTP(w, r)
}

// SetBehaviour makes f control all subsequent requests. A nil f restores the default. f is also
// called for GET requests, so it usually checks the method first.
func (s *Sandbox) SetBehaviour(f BehaviourFunc) {
	if f == nil {
		s.behave.Store(nil)
		return
	}
	s.behave.Store(&f)
}

// Close cuts the connections of all hanging and delayed requests. After Close, requests that would
// wait are cut at once, and other requests are still answered. Close may be called twice.
func (s *Sandbox) Close() {
	s.closeOnce.Do(func() { close(s.closing) })
}

// idle waits until no request is running.
func (s *Sandbox) idle() {
	s.active.Lock()
	defer s.active.Unlock()
}

func (s *Sandbox) authorised(next http.HandlerFunc) http.HandlerFunc {
	if s.opts.Key == "" {
		return next
	}
	want := bearer + s.opts.Key
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != want {
			writeNested(w, http.StatusUnauthorized, apiError{message: "Invalid token", kind: kindNewAPI})
			return
		}
		next(w, r)
	}
}

// readBody reads the whole body before the handler answers. An early answer breaks proxies that are
// still streaming the request.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		return body, true
	}
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		writeNested(w, http.StatusRequestEntityTooLarge, apiError{
			code: "request_too_large", message: "request body exceeds 64 MiB", kind: kindInvalid,
		})
		return nil, false
	}
	reset(w)
	return nil, false
}

func (s *Sandbox) baseURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

const idAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newID returns prefix followed by 32 random letters and digits.
func newID(prefix string) string {
	b := make([]byte, 0, len(prefix)+32)
	b = append(b, prefix...)
	for range 32 {
		b = append(b, idAlphabet[rand.IntN(len(idAlphabet))])
	}
	return string(b)
}

// fnvOf returns a hash of text, which gives each task a reproducible seed.
func fnvOf(text string) int64 {
	h := uint32(2166136261)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return int64(h >> 1)
}

func isInteger(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}
