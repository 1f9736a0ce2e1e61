package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/grpcstatus"
)

// bodiesPage shows a job's request and a chat's reply. Every view is recorded.
type bodiesPage struct {
	*genbusv1.GetJobBodiesResponse
	Kind, Tenant, ID string
	// Request and Reply are indented JSON. Text is the reply's text.
	Request, Reply, Text string
}

func loadBodies(ctx context.Context, c *Console, r *query) (any, error) {
	p := bodiesPage{Kind: r.PathValue("kind"), Tenant: r.PathValue("tenant"), ID: r.PathValue("id")}
	out, err := c.api.GetJobBodies(ctx, &genbusv1.GetJobBodiesRequest{Kind: p.Kind, Tenant: p.Tenant, Id: p.ID})
	if err != nil {
		return nil, err
	}
	p.GetJobBodiesResponse = out
	p.Request, p.Reply, p.Text = reindent(out.GetRequestJson()), reindent(out.GetReplyJson()), textOf(out.GetReplyJson())
	return p, nil
}

// bodiesOnly returns a handler that serves a job's stored content if operators may read bodies. It
// records the access.
func (c *Console) bodiesOnly(serve func(w http.ResponseWriter, r *http.Request, tenant string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := c.viewer(r)
		if needsLogin(err) {
			c.askForLogin(w, r)
			return
		}
		kind, tenant, id := "video", r.PathValue("tenant"), r.PathValue("id")
		if strings.HasPrefix(r.URL.Path, Path+"/jobs/chat/") {
			kind = "chat"
		}
		// A player requests a video in many parts, and a browser reopens a chat's stream. Record
		// such requests as one access. Once reading bodies has been disabled, GetJobBodies must
		// refuse each of them.
		look := who.Name + " " + kind + " " + tenant + " " + id
		if !c.Config.Now().OperatorsReadBodies || !c.seen.lately(look, time.Now()) {
			ctx, cancel := context.WithTimeout(withKey(r.Context(), who), loadTimeout)
			defer cancel()
			if _, err := c.api.GetJobBodies(ctx, &genbusv1.GetJobBodiesRequest{Kind: kind, Tenant: tenant, Id: id}); err != nil {
				f := grpcstatus.Error(err)
				c.refuse(w, r, errcode.MeaningOf(f.Code).HTTP, f.Message)
				return
			}
			c.seen.note(look, time.Now())
		}
		serve(w, r, tenant)
	}
}

// textOf returns the text of a reply's choices, or an empty string if raw is not a reply.
func textOf(raw []byte) string {
	reply, err := body.ParseCompletion(raw)
	if err != nil {
		return ""
	}
	var all []string
	for _, choice := range reply.GetChoices() {
		if text := body.MessageText(choice.GetMessage()); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "\n\n")
}

// retryJob retries a job. If the form contains an edited request, retryJob uses that.
func retryJob(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	kind, tenant, id := r.PathValue("kind"), r.PathValue("tenant"), r.PathValue("id")
	out, err := c.api.RetryJob(ctx, &genbusv1.RetryJobRequest{
		Kind: kind, Tenant: tenant, Id: id, RequestJson: []byte(strings.TrimSpace(r.PostFormValue("request"))), IdempotencyKey: r.PostFormValue("idempotency_key"),
	})
	if err != nil {
		return jobURL(kind, tenant, id), "", err
	}
	return jobURL(kind, tenant, out.GetId()), "retried", nil
}
