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
	"github.com/genbus/genbus/internal/subject"
)

// bodiesPage shows a job's request and a chat's reply. Every view is recorded.
type bodiesPage struct {
	*genbusv1.GetJobBodiesResponse
	Job   *genbusv1.JobSummary
	Ended bool
	// Request and Reply are indented JSON.
	Request, Reply string
	// Messages are the conversation of a chat: its request and its reply.
	Messages []*genbusv1.ChatMessage
}

func (p bodiesPage) heading() string { return p.Job.GetId() }

func loadBodies(ctx context.Context, c *Console, r *query) (any, error) {
	kind, tenant, id := r.PathValue("kind"), r.PathValue("tenant"), r.PathValue("id")
	out, err := c.api.GetJobBodies(ctx, &genbusv1.GetJobBodiesRequest{Kind: kind, Tenant: tenant, Id: id})
	if err != nil {
		return nil, err
	}
	job, err := c.api.GetJob(ctx, &genbusv1.GetJobRequest{Kind: kind, Tenant: tenant, Id: id})
	if err != nil {
		return nil, err
	}
	p := bodiesPage{
		GetJobBodiesResponse: out, Job: job.GetJob(), Ended: ended(job.GetJob().GetStatus()),
		Request: reindent(out.GetRequestJson()), Reply: reindent(out.GetReplyJson()),
	}
	if kind == string(subject.Chat) {
		p.Messages = append(body.ParseMessages(out.GetRequestJson()), replies(out.GetReplyJson())...)
	}
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

// replies returns the messages of a reply's choices, or nil if raw is not a reply.
func replies(raw []byte) (messages []*genbusv1.ChatMessage) {
	reply, err := body.ParseCompletion(raw)
	if err != nil {
		return nil
	}
	for _, choice := range reply.GetChoices() {
		messages = append(messages, choice.GetMessage())
	}
	return messages
}

// speaker returns the CSS class of a role. Vendors may have other roles than these.
func speaker(role string) string {
	switch role {
	case "system", "developer":
		return "system"
	case "user", "tool":
		return role
	case "function":
		return "tool"
	default:
		return "assistant"
	}
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
