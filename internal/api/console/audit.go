package console

import (
	"fmt"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/operator/audit"
)

// phrase is a part of a sentence. URL is empty for plain text.
type phrase struct{ Text, URL string }

// sentence splits the sentence of an audit record, so that jobs, routes and dead letters are links.
func sentence(r *genbusv1.AuditRecord) (out []phrase) {
	rest := audit.Sentence(r)
	link := func(text, url string) {
		if before, after, found := strings.Cut(rest, text); found {
			out, rest = append(out, phrase{Text: before}, phrase{Text: text, URL: url}), after
		}
	}
	switch { // in the order of the sentence
	case r.GetRoute() != "" && r.GetBulk() == nil:
		link(r.GetKind()+"/"+r.GetRoute(), Path+"/routes")
	case r.GetLetter() != 0:
		link(fmt.Sprint("dead letter ", r.GetLetter()), deadLetterURL(r.GetLetter()))
	case r.GetJobId() != "":
		link(r.GetJobId(), jobURL(r.GetKind(), r.GetTenant(), r.GetJobId()))
	}
	if id := r.GetNewJobId(); id != "" {
		link(id, jobURL(r.GetKind(), r.GetTenant(), id))
	}
	return append(out, phrase{Text: rest})
}
