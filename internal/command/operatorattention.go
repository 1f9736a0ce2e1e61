package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

type attentionCommand struct{}

func (attentionCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.ListAttention(ctx, &genbusv1.ListAttentionRequest{})
		if err != nil {
			return answered(err)
		}
		return call.attention(answer)
	})
}

// attention prints a paragraph for each entry.
func (p printer) attention(m *genbusv1.ListAttentionResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	for _, a := range m.GetEntries() {
		since := ""
		if a.GetSince() != nil {
			since = ", since " + moment(a.GetSince())
		}
		reason := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(a.GetReason().String(), "REASON_"), "_", " "))
		if _, err := fmt.Fprintf(p.out, "%s: %s%s\n  %s\n  %s\n  %s\n\n", reason, clean(a.GetSubject()), since, clean(a.GetAffects()), clean(a.GetAction()), clean(a.GetCommand())); err != nil {
			return err
		}
	}
	if missing := m.GetMissing(); len(missing) > 0 {
		return p.message(m, "not available: %s", strings.Join(missing, ", "))
	}
	if len(m.GetEntries()) == 0 {
		return p.message(m, "Nothing needs attention.")
	}
	return nil
}
