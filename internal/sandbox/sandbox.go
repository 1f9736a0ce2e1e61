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

// The models that the sandbox answers.
const (
	ModelVideo          = "sandbox-video"
	ModelVideoEnveloped = "sandbox-video-enveloped"
	ModelChat           = "sandbox-chat"
	ModelChatFast       = "sandbox-chat-fast"
	ModelVideos         = "sandbox-videos"
	ModelVideosGateway  = "sandbox-videos-gateway"
	ModelKling          = "sandbox-kling" // and every model_name that begins so
	ModelKlingGateway   = "sandbox-kling-gateway"
	ModelJimeng         = "sandbox-jimeng" // and every req_key that begins so, or with sandbox_jimeng
)

// maxBody bounds a request body, in bytes.
const maxBody = 64 << 20

// Options configure a Sandbox. The zero value is usable.
type Options struct {
	// VideoDuration is the time from create to completed. Default 2s.
	VideoDuration time.Duration
	// ChunkInterval is the time between two chunks of sandbox-chat. Default 20ms.
	ChunkInterval time.Duration
	// ChunkCount is the number of content chunks of a chat reply. Default 20.
	ChunkCount int
	// Key, when set, is the only bearer key accepted below /v1/ and on the vendors'
	// paths. Signatures and tokens of vendors are not verified: without a Key, all pass.
	Key string
	// RepeatCreates makes a repeated Idempotency-Key create a second task, as
	// many real upstreams do. Default: the key answers its first task.
	RepeatCreates bool
	// MaxTasks bounds the tasks, and the keys, that are remembered; beyond it
	// creates are refused with 503. Default 1048576.
	MaxTasks int
}

func (o Options) withDefaults() Options {
	o.VideoDuration = cmp.Or(o.VideoDuration, 2*time.Second)
	o.ChunkInterval = cmp.Or(o.ChunkInterval, 20*time.Millisecond)
	o.ChunkCount = cmp.Or(o.ChunkCount, 20)
	o.MaxTasks = cmp.Or(o.MaxTasks, 1<<20)
	return o
}

// Sandbox is the fake upstream as an http.Handler. It starts no goroutines of
// its own and is safe for concurrent use.
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
	active    sync.RWMutex  // read-held by each request, so that Server.Close can wait
}

// BehaviourFunc decides how one request is treated; nil means as the request
// itself asks. The body is nil for GET requests and must not be kept.
type BehaviourFunc func(r *http.Request, body []byte) *Behaviour

// New makes a Sandbox.
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

// getReady answers as genbus does, so that "service health --url" can ask both. A sandbox
// that answers is ready.
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

// SetBehaviour makes f decide on every request from now on; nil removes it.
// It is called for GET requests too, so f usually looks at the method first.
func (s *Sandbox) SetBehaviour(f BehaviourFunc) {
	if f == nil {
		s.behave.Store(nil)
		return
	}
	s.behave.Store(&f)
}

// Close ends every hanging or delayed request by cutting its connection. It may
// be called twice. Later requests that ask for a wait are cut at once, the
// others are answered.
func (s *Sandbox) Close() {
	s.closeOnce.Do(func() { close(s.closing) })
}

// idle waits until no request is in hand.
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

// readBody reads the whole body before anything is answered: a server that
// answers at once breaks proxies that are still streaming the request.
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

// baseURL is where the result files of this request's tasks are found.
func (s *Sandbox) baseURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

const idAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newID gives prefix and 32 random letters and digits.
func newID(prefix string) string {
	b := make([]byte, 0, len(prefix)+32)
	b = append(b, prefix...)
	for range 32 {
		b = append(b, idAlphabet[rand.IntN(len(idAlphabet))])
	}
	return string(b)
}

// fnvOf is a stable number for a text; it makes seeds repeatable per task.
func fnvOf(text string) int64 {
	h := uint32(2166136261)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return int64(h >> 1)
}

// isInteger says whether text is a decimal integer.
func isInteger(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}
