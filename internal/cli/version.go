package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/genbus/genbus/internal/process"
)

type versionCommand struct {
	JSON bool `help:"Print JSON." name:"json"`
}

// Run prints the build. The first word is the version.
func (c versionCommand) Run(out io.Writer) error {
	if c.JSON {
		return json.NewEncoder(out).Encode(process.ReadBuild())
	}
	_, err := fmt.Fprintln(out, process.ReadBuild())
	return err
}

// version returns the version of this build for logs, metrics and traces.
func version() string { return process.ReadBuild().Version }
