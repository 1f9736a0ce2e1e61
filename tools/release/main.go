// Command release makes the parts of a release that are not compiled: the image, the chart, the
// SBOM, the licenses, the provenance and the checksums. It reads the binaries in a directory and
// writes to the same directory. It also pushes the image and the chart. deploy/release runs it:
//
//	release build DIST SOURCE FLAG...
//	release push DIST REGISTRY
//
// Every time in the output is the time of the commit, so that two builds are identical.
//
// It is a separate module, so that genbus does not depend on its libraries.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	switch {
	case len(args) >= 3 && args[0] == "build":
		r, err := open(args[1], args[2])
		if err != nil {
			return err
		}
		return r.build(ctx, args[3:])
	case len(args) == 3 && args[0] == "push":
		return push(ctx, out, args[1], args[2])
	default:
		return errors.New("usage: release build DIST SOURCE FLAG..., or release push DIST REGISTRY")
	}
}
