package console

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

// action changes something. It returns the page to show next and the word in done that says
// what was done. All of them are safe to send twice.
type action func(ctx context.Context, c *Console, r *http.Request) (next, word string, err error)

// actions are what forms ask for, by their patterns below Path.
var actions = map[string]action{
	"/jobs/{kind}/{tenant}/{id}/cancel": cancelJob,
	"/jobs/{kind}/{tenant}/{id}/erase":  eraseJob,
	"/jobs/{kind}/{tenant}/{id}/retry":  retryJob,
	"/operations":                       startOperation,
	"/operations/{id}/stop":             stopOperation,
	"/decisions/{sequence}/redrive":     redrive,
	"/decisions/{sequence}/attach":      attach,
	"/decisions/{sequence}/look-up":     lookUp,
	"/decisions/{sequence}/drop":        drop,
	"/routes/{kind}/{name}/pause":       pauseRoute,
	"/routes/{kind}/{name}/resume":      resumeRoute,
}

// done are what a page says after an action, by the word in its address: a link can have it
// say nothing else.
var done = map[string]string{
	"cancelled": "The job was cancelled. One that had ended stays as it was.",
	"erased":    "The job was erased.",
	"retried":   "The request was submitted again, as this job.",
	"started":   "The operation was started. It goes on when this page is closed.",
	"stopping":  "The operation stops; what it has done stays.",
	"redriven":  "The request was sent again, as this job.",
	"found":     "The upstream has the task. Attach it without an id: the upstream is asked again then.",
	"unseen":    "The upstream sees no such task now. That does not prove that there is none.",
	"unknown":   "The upstream did not say whether it has the task: it did not answer, or its answer is about another task.",
	"attached":  "The upstream's task is followed, as this job.",
	"dropped":   "The dead letter was removed.",
	"paused":    "The route is paused: waiting jobs wait, and held jobs go on.",
	"resumed":   "The route goes on.",
}

// act has an action done, and leads to the page that shows what came of it.
func (c *Console) act(w http.ResponseWriter, r *http.Request, a action) {
	who, err := c.viewer(r)
	if needsLogin(err) {
		c.askForLogin(w, r)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.refuse(w, r, http.StatusBadRequest, "The form cannot be read, and nothing was done: it may be too large.")
		return
	}
	ctx, cancel := context.WithTimeout(withKey(r.Context(), who), loadTimeout)
	defer cancel()
	next, word, err := a(ctx, c, r)
	if err != nil {
		f := errcode.FromStatus(err)
		p := page{Title: "Not done", Viewer: who, URL: r.URL, Nav: "none", Err: f.Message, Data: message{Code: string(f.Code), JobID: f.JobID, Back: next}}
		c.write(w, r, errcode.MeaningOf(f.Code).HTTP, "message", p)
		return
	}
	http.Redirect(w, r, next+"?done="+word, http.StatusSeeOther)
}

// message is what a page shows that says why something was not done.
type message struct{ Code, JobID, Back string }

func cancelJob(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	kind, tenant, id := r.PathValue("kind"), r.PathValue("tenant"), r.PathValue("id")
	_, err = c.api.CancelJob(ctx, &genbusv1.CancelJobRequest{Kind: kind, Tenant: tenant, Id: id})
	return jobURL(kind, tenant, id), "cancelled", err
}

func eraseJob(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	kind, tenant, id := r.PathValue("kind"), r.PathValue("tenant"), r.PathValue("id")
	if _, err = c.api.EraseJob(ctx, &genbusv1.EraseJobRequest{Kind: kind, Tenant: tenant, Id: id}); err != nil {
		return jobURL(kind, tenant, id), "", err
	}
	return Path + "/jobs", "erased", nil
}

// sequenceOf is the letter that a path names.
func sequenceOf(r *http.Request) (uint64, error) {
	seq, err := strconv.ParseUint(r.PathValue("sequence"), 10, 64)
	if err != nil {
		return 0, errcode.New(errcode.LetterNotFound, "there is no dead letter %s", errcode.Clip(r.PathValue("sequence"), 32))
	}
	return seq, nil
}

func letterURL(seq uint64) string { return Path + "/decisions/" + strconv.FormatUint(seq, 10) }

// letter reads a letter without its request.
func (c *Console) letter(ctx context.Context, seq uint64) (*genbusv1.StoredDeadLetter, error) {
	out, err := c.api.GetDeadLetter(ctx, &genbusv1.GetDeadLetterRequest{Sequence: seq, WithoutData: true})
	return out.GetLetter(), err
}

func redrive(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	return c.resolve(ctx, r, "redriven", func(seq uint64) (string, error) {
		out, err := c.api.RedriveDeadLetter(ctx, &genbusv1.RedriveDeadLetterRequest{Sequence: seq})
		return out.GetId(), err
	})
}

func attach(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	return c.resolve(ctx, r, "attached", func(seq uint64) (string, error) {
		out, err := c.api.AttachUpstreamTask(ctx, &genbusv1.AttachUpstreamTaskRequest{Sequence: seq, UpstreamTaskId: strings.TrimSpace(r.PostFormValue("upstream_task_id"))})
		return out.GetId(), err
	})
}

// lookUp asks the upstream for a letter's task, and leads back to the letter.
func lookUp(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	seq, err := sequenceOf(r)
	if err != nil {
		return Path + "/decisions", "", err
	}
	out, err := c.api.LookUpUpstreamTask(ctx, &genbusv1.LookUpUpstreamTaskRequest{Sequence: seq})
	if err != nil {
		return letterURL(seq), "", err
	}
	switch out.GetLookUp().GetResult() {
	case genbusv1.LookUpResult_LOOK_UP_RESULT_FOUND:
		return letterURL(seq), "found", nil
	case genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_VISIBLE:
		return letterURL(seq), "unseen", nil
	default:
		return letterURL(seq), "unknown", nil
	}
}

// resolve makes a job of a letter, and leads to it.
func (c *Console) resolve(ctx context.Context, r *http.Request, word string, act func(seq uint64) (id string, err error)) (string, string, error) {
	seq, err := sequenceOf(r)
	if err != nil {
		return Path + "/decisions", "", err
	}
	id, err := act(seq)
	if err != nil {
		return letterURL(seq), "", err
	}
	j, err := c.api.GetJob(ctx, &genbusv1.GetJobRequest{Id: id})
	if err != nil { // it was made all the same
		return Path + "/decisions", word, nil //nolint:nilerr // the job is in the list
	}
	return jobURL(j.GetJob().GetKind(), j.GetJob().GetTenant(), id), word, nil
}

func drop(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	seq, err := sequenceOf(r)
	if err != nil {
		return Path + "/decisions", "", err
	}
	if _, err = c.api.DropDeadLetter(ctx, &genbusv1.DropDeadLetterRequest{Sequence: seq}); err != nil {
		return letterURL(seq), "", err
	}
	return Path + "/decisions", "dropped", nil
}

func pauseRoute(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	_, err = c.api.PauseRoute(ctx, &genbusv1.PauseRouteRequest{Kind: r.PathValue("kind"), Name: r.PathValue("name")})
	return Path + "/routes", "paused", err
}

func resumeRoute(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	_, err = c.api.ResumeRoute(ctx, &genbusv1.ResumeRouteRequest{Kind: r.PathValue("kind"), Name: r.PathValue("name")})
	return Path + "/routes", "resumed", err
}
