package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

type keyCommand struct {
	New newKeyCommand `cmd:"" help:"Print a new random key and its entry for the configuration file."`
}

type newKeyCommand struct {
	Tenant   *string `help:"Tenant of the key." placeholder:"NAME" xor:"whose"`
	Operator *string `help:"Operator of the key." placeholder:"NAME" xor:"whose"`
}

// Run prints the key alone on the first line. The key is not stored.
func (c newKeyCommand) Run(out io.Writer) error {
	if name := cmp.Or(c.Tenant, c.Operator); name != nil && subject.CheckToken(*name) != nil {
		return command.WrongUse("invalid name %q; use 1 to 64 letters, digits, _ or -", *name)
	}
	entry := "api_keys:\n  - tenant: <tenant>" // a placeholder that is not a valid tenant
	switch {
	case c.Tenant != nil:
		entry = "api_keys:\n  - tenant: " + *c.Tenant
	case c.Operator != nil:
		entry = "operator_keys:\n  - name: " + *c.Operator
	}
	key, hash := config.NewKey()
	_, err := fmt.Fprintf(out, "%s\n\nThis key is shown once. Put its hash into the configuration:\n\n%s\n    key_sha256: %s\n", key, entry, hash)
	return err
}
