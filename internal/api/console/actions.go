package console

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/grpcstatus"
)

// action handles a form that changes something. It returns the page to show next and a key of done,
// whose message describes the result. Actions are idempotent.
type action func(ctx context.Context, c *Console, r *http.Request) (next, word string, err error)

// actions maps patterns below Path to their actions.
var actions = map[string]action{
	"/jobs/{kind}/{tenant}/{id}/cancel": cancelJob,
	"/jobs/{kind}/{tenant}/{id}/erase":  eraseJob,
	"/jobs/{kind}/{tenant}/{id}/retry":  retryJob,
	"/decisions/{sequence}/redrive":     redrive,
	"/decisions/{sequence}/attach":      attach,
	"/decisions/{sequence}/look-up":     lookUp,
	"/decisions/{sequence}/drop":        drop,
	"/routes/{kind}/{name}/pause":       pauseRoute,
	"/routes/{kind}/{name}/resume":      resumeRoute,
}

// act runs an action and redirects to the page that shows its result.
func (c *Console) act(w http.ResponseWriter, r *http.Request, a action) {
	who, ok := c.form(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(withKey(r.Context(), who), loadTimeout)
	defer cancel()
	next, word, err := a(ctx, c, r)
	if err != nil {
		f := grpcstatus.Error(err)
		p := page{Title: "Not done", Viewer: who, URL: r.URL, Nav: "none", Err: f.Message, Data: message{Code: string(f.Code), JobID: f.JobID, Back: next}}
		c.write(w, r, errcode.MeaningOf(f.Code).HTTP, "message", p)
		return
	}
	http.Redirect(w, r, next+"?done="+word, http.StatusSeeOther)
}

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

func pauseRoute(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	m := &genbusv1.PauseRouteRequest{Kind: r.PathValue("kind"), Name: r.PathValue("name"), Reason: strings.TrimSpace(r.PostFormValue("reason"))}
	if minutes := r.PostFormValue("minutes"); minutes != "" {
		n, _ := strconv.Atoi(minutes) // the method refuses 0
		m.Duration = durationpb.New(time.Duration(n) * time.Minute)
	}
	_, err = c.api.PauseRoute(ctx, m)
	return Path + "/routes", "paused", err
}

func resumeRoute(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	_, err = c.api.ResumeRoute(ctx, &genbusv1.ResumeRouteRequest{Kind: r.PathValue("kind"), Name: r.PathValue("name")})
	return Path + "/routes", "resumed", err
}
