package console

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
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

// bodiesOnly serves what a job of the path's tenant has, to those who may read it. A player asks
// for it in many parts, so that it is in the log of the process, where it begins, and not in
// the audit log.
func (c *Console) bodiesOnly(serve func(w http.ResponseWriter, r *http.Request, tenant string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := c.viewer(r)
		switch {
		case needsLogin(err):
			c.askForLogin(w, r)
			return
		case !c.Config.Now().OperatorsReadBodies:
			c.refuse(w, r, errcode.MeaningOf(errcode.BodiesPrivate).HTTP, errcode.MeaningOf(errcode.BodiesPrivate).Means)
			return
		}
		tenant := r.PathValue("tenant")
		if from := r.Header.Get("Range"); from == "" || strings.HasPrefix(from, "bytes=0-") {
			c.Logger.InfoContext(r.Context(), "an operator looks at the result of a job", "operator", who.Name,
				telemetry.KeyTenant, errcode.Clip(tenant, 64), telemetry.KeyJobID, errcode.Clip(r.PathValue("id"), 64))
		}
		serve(w, r, tenant)
	}
}

// textOf is what a reply says in its choices; empty where it is none.
func textOf(reply []byte) string {
	var r struct {
		Choices []struct {
			Message struct {
				Content any `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(reply, &r) != nil {
		return ""
	}
	var all []string
	for _, choice := range r.Choices {
		if text, ok := choice.Message.Content.(string); ok {
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
