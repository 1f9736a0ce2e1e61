package console

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

// deadLetterFilters are the query parameters that filter dead letters.
var deadLetterFilters = []string{"kind", "tenant", "code"}

func loadDecisions(ctx context.Context, c *Console, r *query) (any, error) {
	if err := r.only(append(deadLetterFilters, "page_token")...); err != nil {
		return nil, err
	}
	return c.api.ListDeadLetters(ctx, &genbusv1.ListDeadLettersRequest{
		Kind: r.get("kind"), Tenant: r.get("tenant"), Code: r.get("code"), PageSize: jobsPageSize, PageToken: r.get("page_token"),
	})
}

type decisionPage struct {
	*genbusv1.StoredDeadLetter
	Stakes stakes
}

func (p decisionPage) heading() string {
	return "Dead letter " + strconv.FormatUint(p.GetSequence(), 10)
}

// loadDecision reads a dead letter without its request. The request contains a prompt, and reading
// it would be recorded.
func loadDecision(ctx context.Context, c *Console, r *query) (any, error) {
	seq, err := sequenceOf(r.Request)
	if err != nil {
		return nil, err
	}
	l, err := c.deadLetter(ctx, seq)
	if err != nil {
		return nil, err
	}
	return decisionPage{StoredDeadLetter: l, Stakes: stakesOf(l)}, nil
}

func sequenceOf(r *http.Request) (uint64, error) {
	seq, err := strconv.ParseUint(r.PathValue("sequence"), 10, 64)
	if err != nil {
		return 0, errcode.New(errcode.DeadLetterNotFound, "dead letter %q not found", errcode.Clip(r.PathValue("sequence"), 32))
	}
	return seq, nil
}

// deadLetter reads a dead letter without its request.
func (c *Console) deadLetter(ctx context.Context, seq uint64) (*genbusv1.StoredDeadLetter, error) {
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

// lookUp asks the upstream for a dead letter's task and returns to the dead letter's page.
func lookUp(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	seq, err := sequenceOf(r)
	if err != nil {
		return Path + "/decisions", "", err
	}
	out, err := c.api.LookUpUpstreamTask(ctx, &genbusv1.LookUpUpstreamTaskRequest{Sequence: seq})
	if err != nil {
		return deadLetterURL(seq), "", err
	}
	switch out.GetLookUp().GetResult() {
	case genbusv1.LookUpResult_LOOK_UP_RESULT_FOUND:
		return deadLetterURL(seq), "found", nil
	case genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_VISIBLE:
		return deadLetterURL(seq), "unseen", nil
	default:
		return deadLetterURL(seq), "unknown", nil
	}
}

// resolve calls createJob, which creates a job from a dead letter, and returns the job's page.
func (c *Console) resolve(ctx context.Context, r *http.Request, word string, createJob func(seq uint64) (id string, err error)) (string, string, error) {
	seq, err := sequenceOf(r)
	if err != nil {
		return Path + "/decisions", "", err
	}
	id, err := createJob(seq)
	if err != nil {
		return deadLetterURL(seq), "", err
	}
	j, err := c.api.GetJob(ctx, &genbusv1.GetJobRequest{Id: id})
	if err != nil { // the job was created nevertheless
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
		return deadLetterURL(seq), "", err
	}
	return Path + "/decisions", "dropped", nil
}
