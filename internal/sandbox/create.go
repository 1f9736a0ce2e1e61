package sandbox

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"
)

// protocol is one way to create video tasks.
type protocol struct {
	name   string // as in Stats.CreatesPerProtocol
	refuse refuser
	// read reads the task that a body asks for, or says how it is refused.
	read func(s *Sandbox, r *http.Request, body []byte) (order, refusal)
}

// order is a create that is understood.
type order struct {
	task      *task
	behaviour Behaviour
}

// creates is the handler of a protocol's creates.
func (s *Sandbox) creates(p protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if body, ok := readBody(w, r); ok {
			s.create(w, r, body, p)
		}
	}
}

// create accepts one task. The order matters to its users: the create is counted
// once its body is here, accepted unless it is refused, and only then delayed or
// cut, so that a caller who hears nothing cannot know.
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
	writeJSON(w, b.acceptedStatus(), t.dialect.created(s, r, t, b))
}

func writeUnkept(w http.ResponseWriter, err error, d *dialect) {
	if errors.Is(err, errExternalTaken) {
		d.refuse(w, http.StatusBadRequest, d.badParameter(), err.Error())
		return
	}
	writeFull(w)
}

// behaviourOf gathers what a create asks for, with its Times applied. inBody is
// the object that the body holds for it.
func (s *Sandbox) behaviourOf(r *http.Request, body []byte, suffix string, inBody []byte) (Behaviour, error) {
	b, err := s.behaviourFor(r, body, suffix, inBody)
	if err != nil {
		return b, err
	}
	return s.limited(b, "video", cmp.Or(r.Header.Get("Idempotency-Key"), b.ID))
}

// newTask makes a task of the usual size. The model is as the client wrote it.
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
