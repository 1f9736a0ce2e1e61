package sandbox

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"
)

// protocol is one of the APIs that create video tasks.
type protocol struct {
	name   string // key in Stats.CreatesPerProtocol
	refuse refuser
	// read returns the task that a body requests, or a refusal.
	read func(s *Sandbox, r *http.Request, body []byte) (order, refusal)
}

type order struct {
	task      *task
	behaviour Behaviour
}

func (s *Sandbox) creates(p protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if body, ok := readBody(w, r); ok {
			s.create(w, r, body, p)
		}
	}
}

// create creates a task. It counts the create when the body is complete, accepts or refuses it, and
// only then delays or drops the answer. Tests rely on this order. A caller that gets no answer
// cannot know whether the task exists.
func (s *Sandbox) create(w http.ResponseWriter, r *http.Request, body []byte, p protocol) {
	key := r.Header.Get("Idempotency-Key")
	s.count.creates.Add(1)
	s.protocols.add(p.name)
	s.accounts.add(accountOf(r))
	if len(key) > maxKey {
		p.refuse(w, http.StatusBadRequest, "", "Idempotency-Key is longer than 255 bytes")
		return
	}
	if !s.videoKeys.arrive(key) {
		writeFull(w)
		return
	}
	o, refuse := p.read(s, r, body)
	if refuse != nil {
		refuse(w)
		return
	}
	b := o.behaviour
	if s.stopsHere(w, r, b, o.task.dialect.refuse) {
		return
	}
	o.task.key = key
	t, err := s.videoKeys.accept(key, s.opts.RepeatCreates, o.task, s.tasks.add)
	if err != nil {
		writeUnkept(w, err, o.task.dialect)
		return
	}
	if b.Drop == DropAfterCreate {
		reset(w)
		return
	}
	if s.stalls(w, r, b) {
		return
	}
	w.Header().Set("X-Oneapi-Request-Id", newID("req_"))
	answer := t.dialect.created(s, r, t, b)
	if b.Nested {
		answer = append(append([]byte(`{"result":`), answer...), '}')
	}
	writeJSON(w, b.acceptedStatus(), answer)
}

func writeUnkept(w http.ResponseWriter, err error, d *dialect) {
	if errors.Is(err, errExternalTaken) {
		d.refuse(w, http.StatusBadRequest, d.badParameter(), err.Error())
		return
	}
	writeFull(w)
}

// behaviourOf returns the behaviour of a create, with Times applied. inBody is the behaviour object
// from the body.
func (s *Sandbox) behaviourOf(r *http.Request, body []byte, suffix string, inBody []byte) (Behaviour, error) {
	b, err := s.behaviourFor(r, body, suffix, inBody)
	if err != nil {
		return b, err
	}
	return s.limited(b, "video", cmp.Or(r.Header.Get("Idempotency-Key"), b.ID))
}

// newTask returns a task with default properties. model is the name exactly as the client wrote it.
func (s *Sandbox) newTask(d *dialect, model string, b Behaviour) *task {
	t := &task{
		id: d.newID(), model: model, dialect: d,
		created: time.Since(s.start), duration: s.opts.VideoDuration, script: newScript(b),
		seconds: 5, width: 1280, height: 720, fps: 30, videos: 1,
	}
	t.seed = fnvOf(t.id)
	if b.DurationMS != nil {
		t.duration = time.Duration(*b.DurationMS) * time.Millisecond
	}
	if i := slices.Index(modelIDs, model); i >= 0 {
		t.model = modelIDs[i] // all tasks of a model share one string
	}
	return t
}
