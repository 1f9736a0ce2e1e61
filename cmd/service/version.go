package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/genbus/genbus/internal/build"
)

type versionCommand struct {
	JSON bool `help:"Print JSON." name:"json"`
}

// Run prints the build; the first word of the line is the version.
func (c versionCommand) Run(out io.Writer) error {
	if c.JSON {
		return json.NewEncoder(out).Encode(build.Read())
	}
	_, err := fmt.Fprintln(out, build.Read())
	return err
}

// version is what logs, metrics and traces call this build.
func version() string { return build.Read().Version }
