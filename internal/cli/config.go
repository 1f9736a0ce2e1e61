package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/plural"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/service"
)

// configCommand contains the commands that work on a configuration without a service.
type configCommand struct {
	Check   configCheckCommand   `cmd:"" help:"Check the configuration and print every problem; exit 0 or 1. Connects to nothing."`
	Print   configPrintCommand   `cmd:"" help:"Print the effective configuration, without secrets."`
	Example configExampleCommand `cmd:"" help:"Print a configuration with every key, its default and its meaning."`
}

type configCheckCommand struct {
	File string `arg:"" optional:"" help:"Configuration file; overrides GENBUS_CONFIG." type:"path"`
}

// Run returns all problems as one error. If there are none, it prints the warnings of serve, the
// addresses that the routes call, and a summary.
func (c configCheckCommand) Run(out io.Writer) error {
	var calls []routes.Call
	cfg, err := config.Load(config.ProcessSource(c.File))
	if err == nil {
		calls, err = service.Check(cfg)
	}
	if err != nil {
		return wrongConfig(err)
	}
	for _, warning := range warnings(cfg) {
		if _, err := fmt.Fprintln(out, "warning:", warning); err != nil {
			return err
		}
	}
	for _, call := range calls {
		if _, err := fmt.Fprintf(out, "route %s calls %s: %s\n", call.Route, call.Upstream, call.Request); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, "Configuration OK:", summary(cfg))
	return err
}

func wrongConfig(err error) error { return fmt.Errorf("invalid configuration:\n%w", err) }

// warnings returns the problems that do not prevent serve from starting.
func warnings(cfg *config.Config) []string {
	var out []string
	for _, k := range cfg.EndedKeys() {
		out = append(out, fmt.Sprintf("%s of tenant %s expired at %s; genbus refuses the tenant, which has no other key", k.Name, k.Tenant, k.NotAfter.Format("2006-01-02T15:04:05Z07:00")))
	}
	if len(cfg.Routes) == 0 {
		out = append(out, "no upstream is configured; genbus refuses all requests")
	}
	return out
}

func summary(cfg *config.Config) string {
	kinds, keys, tenants := map[string]int{}, 0, map[string]bool{}
	for _, r := range cfg.Routes {
		kinds[r.Kind]++
	}
	for _, u := range cfg.Upstreams {
		for _, k := range u.Credentials() {
			if !k.Key.Empty() || !k.AccessKey.Empty() {
				keys++
			}
		}
	}
	for _, k := range cfg.APIKeys {
		tenants[k.Tenant] = true
	}
	parts := []string{
		fmt.Sprintf("%s (%d video, %d chat)", plural.Count(len(cfg.Routes), "route"), kinds[config.KindVideo], kinds[config.KindChat]),
		plural.Count(len(cfg.Upstreams), "upstream") + " with " + plural.Count(keys, "key"),
		plural.Count(len(tenants), "tenant") + " with " + plural.Count(len(cfg.APIKeys), "API key"),
		plural.Count(len(cfg.OperatorKeys), "operator key"),
		"HTTP " + cfg.HTTP.Addr, "gRPC " + cfg.GRPC.Addr, "NATS " + natsOf(cfg.NATS),
	}
	if len(tenants) == 0 {
		parts[2] = "no API keys (everybody is the tenant " + config.DefaultTenant + ")"
	}
	return strings.Join(parts, ", ")
}

func natsOf(n config.NATS) string {
	switch {
	case !n.Embedded():
		return strings.Join(n.Servers(), ",")
	case n.Listen == config.ListenNone:
		return "embedded, no TCP"
	default:
		return "embedded at " + n.Listen
	}
}

type configPrintCommand struct {
	Config string `help:"Configuration file; overrides GENBUS_CONFIG." type:"path"`
}

// Run prints the effective configuration.
func (c configPrintCommand) Run(out io.Writer) error {
	cfg, err := config.Load(config.ProcessSource(c.Config))
	if err != nil {
		return wrongConfig(err)
	}
	text, err := cfg.Effective()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

type configExampleCommand struct{}

// Run prints the example.
func (configExampleCommand) Run(out io.Writer) error {
	_, err := io.WriteString(out, config.Example())
	return err
}
