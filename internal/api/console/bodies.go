package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
)

// bodiesPage is what a job was asked for, and what a chat replied. Who reads it is recorded.
type bodiesPage struct {
	*genbusv1.GetJobBodiesResponse
	Kind, Tenant, ID string
	// Request and Reply are indented JSON, and Text what the reply says.
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

// bodiesOnly serves what a job of the path's tenant has, to those who may read it, which is
// recorded.
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
		// A player asks for many parts, and a chat's stream comes back: that is one look, unless
		// operators may not look any more.
		look := who.Name + " " + kind + " " + tenant + " " + id
		if !c.Config.Now().OperatorsReadBodies || !c.seen.lately(look, time.Now()) {
			ctx, cancel := context.WithTimeout(withKey(r.Context(), who), loadTimeout)
			defer cancel()
			if _, err := c.api.GetJobBodies(ctx, &genbusv1.GetJobBodiesRequest{Kind: kind, Tenant: tenant, Id: id}); err != nil {
				f := errcode.FromStatus(err)
				c.refuse(w, r, errcode.MeaningOf(f.Code).HTTP, f.Message)
				return
			}
			c.seen.note(look, time.Now())
		}
		serve(w, r, tenant)
	}
}

// textOf is what a reply says in its choices; empty where it is none.
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

// retryJob submits a job again, edited where the form has another request.
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
