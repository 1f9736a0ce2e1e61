package main

import (
	"context"
	"fmt"
	"io"

	"github.com/genbus/genbus/internal/plural"
	"github.com/genbus/genbus/internal/protoset"
)

type protoCommand struct {
	Out string `required:"" help:"Directory to write to, created if missing. Replaces an earlier set and keeps other files." placeholder:"DIR" type:"path"`
}

func (c protoCommand) Run(ctx context.Context, out io.Writer) error {
	set, err := protoset.New(ctx)
	if err != nil {
		return err
	}
	if err := set.Write(c.Out); err != nil {
		return fmt.Errorf("proto --out: %w", err)
	}
	_, err = fmt.Fprintf(out, "Wrote %s and %s to %s; see docs/http.md for their use.\n", plural.Count(len(set)-1, ".proto file"), protoset.Descriptors, c.Out)
	return err
}
