package command

import (
	"context"
	"io"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Models lists the models that the routes serve.
type Models struct {
	tenantFlags `embed:""`
}

// Run lists the models by ID.
func (c *Models) Run(ctx context.Context, out io.Writer) error {
	return c.call(ctx, out, func(ctx context.Context, call tenantCall) error {
		answer, err := call.models.ListModels(ctx, &genbusv1.ListModelsRequest{})
		if err != nil {
			return err
		}
		return call.list(answer)
	})
}

func (p printer) list(m *genbusv1.ListModelsResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	if len(m.GetModels()) == 0 {
		return p.message(m, "no models")
	}
	rows := make([]string, 0, len(m.GetModels()))
	for _, model := range m.GetModels() {
		rows = append(rows, cells(model.GetId(), model.GetKind(), model.GetGroup(), strings.Join(model.GetModes(), ", "), model.GetRoute(), model.GetOwnedBy()))
	}
	return p.table("MODEL\tKIND\tGROUP\tMODES\tROUTE\tOWNER", rows)
}
