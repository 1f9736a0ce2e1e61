package main

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"

	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/telemetry"
)

// fits reports whether a banner may be written to out: to a terminal it may, and never
// among the records of a log in JSON, whose readers expect nothing else. When json is
// asked for, stdout and stderr often end in one stream at the log collector. In
// os.DevNull, which looks like a terminal, a banner would be lost with the addresses.
func fits(out, log *os.File, format string) bool {
	switch {
	case isNull(out):
		return false
	case telemetry.IsTerminal(out):
		return true
	case strings.EqualFold(format, telemetry.FormatJSON):
		return false
	default:
		return !telemetry.IsJSON(log, format) || !sameFile(out, log)
	}
}

func isNull(f *os.File) bool {
	one, err := f.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(one, null)
}

func sameFile(a, b *os.File) bool {
	one, err := a.Stat()
	if err != nil {
		return false
	}
	other, err := b.Stat()
	return err == nil && os.SameFile(one, other)
}

// banner says where a service listens and how to try it.
type banner struct{ *service.Service }

func (s banner) String() string {
	var b strings.Builder
	h, g := s.httpAddress(), s.GRPCAddr()
	fmt.Fprintf(&b, "genbus %s\n  HTTP  %s\n  gRPC  %s%s\n  NATS  %s\n", version(), h, g, s.grpcSecurity(), s.natsAddress())
	if s.hasConsole() {
		fmt.Fprintf(&b, "  Web   %s/console%s\n", s.tryHTTP(), s.login())
	}
	if s.idle() {
		b.WriteString("\nNo upstream is configured; genbus refuses all requests. Set GENBUS_UPSTREAM_URL and GENBUS_UPSTREAM_KEY,\n" +
			"set GENBUS_CONFIG to a file (see examples/genbus.yaml), or start with --sandbox.\n")
		return b.String()
	}
	video, chat := s.exampleModel(config.KindVideo), s.exampleModel(config.KindChat)
	b.WriteString("\nTry it" + s.unsaid() + ":\n")
	if chat != "" {
		fmt.Fprintf(&b, "  curl -N%s %s/v1/chat/completions -H 'Content-Type: application/json'%s \\\n"+
			"    -d '{\"model\":%q,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}'\n", trust(s.Config().HTTP.TLS, "--cacert"), s.tryHTTP(), s.authorization(), chat)
	}
	if video != "" {
		fmt.Fprintf(&b, "  %s%s submit video%s%s --model %s 'a cat'\n", s.environment(), programCommand(os.Args[0]), serverFlag(reachable(g, s.Config().GRPC.TLS)), s.security(), video)
		if url := s.natsAddress(); strings.HasPrefix(url, "nats://") && s.Config().NATS.User == "" {
			fmt.Fprintf(&b, "  nats -s %s req %s -H content-type:application/json '{\"model\":%q,\"prompt\":\"a cat\"}'\n",
				url, s.Names().Call("video", s.exampleTenant()), video)
		}
	}
	return b.String()
}

// hasConsole reports whether someone can use the console: with a key, or at this machine.
func (s banner) hasConsole() bool {
	tcp, ok := s.HTTPAddr().(*net.TCPAddr)
	return len(s.Config().OperatorKeys) > 0 || ok && tcp.IP.IsLoopback() && len(s.Config().APIKeys) == 0
}

func (s banner) login() string {
	if len(s.Config().OperatorKeys) == 0 {
		return ""
	}
	return " (needs an operator key)"
}

// goRun matches the program of a "go run": it is in a directory for this run, or in the
// build cache.
var goRun = regexp.MustCompile(`[/\\](?:go-build\d+[/\\]b\d+[/\\]exe|[0-9a-f]{64}-d)[/\\][^/\\]+$`)

// programCommand is how a program is called again.
func programCommand(program string) string {
	if goRun.MatchString(program) {
		return "go run ./cmd/service"
	}
	return program
}

// serverFlag names our address, where it is not the default.
func serverFlag(server string) string {
	if server == command.DefaultServer {
		return ""
	}
	return " --server " + server
}

// idle reports whether there is no model that could be asked for.
func (s banner) idle() bool { return len(s.Config().Routes) == 0 }

// unsaid explains the variables of the lines to try: the banner knows no key, and no
// file of the client.
func (s banner) unsaid() string {
	var what []string
	if len(s.Config().APIKeys) > 0 {
		what = append(what, "KEY: an API key")
	}
	if s.Config().HTTP.TLS.Enabled() || s.Config().GRPC.TLS.Enabled() {
		what = append(what, "CA: a file of certificates to trust")
	}
	if s.Config().HTTP.TLS.Enabled() && everywhere(s.HTTPAddr()) || s.Config().GRPC.TLS.Enabled() && everywhere(s.GRPCAddr()) {
		what = append(what, "HOST: this machine's name in its certificate")
	}
	if s.Config().HTTP.TLS.ClientCAFile != "" || s.Config().GRPC.TLS.ClientCAFile != "" {
		what = append(what, "CERT, CERT_KEY: files of a client certificate and its key")
	}
	if len(what) == 0 {
		return ""
	}
	return " (" + strings.Join(what, "; ") + ")"
}

// authorization is the header that curl sends where a key is wanted.
func (s banner) authorization() string {
	if len(s.Config().APIKeys) == 0 {
		return ""
	}
	return ` -H "Authorization: Bearer $KEY"`
}

// environment has a command send the key where one is wanted.
func (s banner) environment() string {
	if len(s.Config().APIKeys) == 0 {
		return ""
	}
	return command.EnvAPIKey + `="$KEY" `
}

// exampleTenant is one of whom there is a key, or who everybody is.
func (s banner) exampleTenant() string {
	if len(s.Config().APIKeys) == 0 {
		return config.DefaultTenant
	}
	return s.Config().APIKeys[0].Tenant
}

// trust is what a client needs for a server's TLS; ca is its own name of the flag.
func trust(t config.ServerTLS, ca string) string {
	if !t.Enabled() {
		return ""
	}
	flags := " " + ca + ` "$CA"`
	if t.ClientCAFile != "" {
		flags += ` --cert "$CERT" --key "$CERT_KEY"`
	}
	return flags
}

func (s banner) httpAddress() string {
	scheme := "http"
	if s.Config().HTTP.TLS.Enabled() {
		scheme = "https"
	}
	return scheme + "://" + s.HTTPAddr().String()
}

// tryHTTP is an address of HTTP that a client on this machine can call.
func (s banner) tryHTTP() string {
	scheme, _, _ := strings.Cut(s.httpAddress(), "://")
	return scheme + "://" + reachable(s.HTTPAddr(), s.Config().HTTP.TLS)
}

// reachable is how a client on this machine calls an address. One that listens
// everywhere has no host that could be called, or that a certificate could name.
func reachable(addr net.Addr, t config.ServerTLS) string {
	if !everywhere(addr) {
		return addr.String()
	}
	_, port, _ := net.SplitHostPort(addr.String())
	if t.Enabled() {
		return "$HOST:" + port
	}
	return "localhost:" + port
}

func everywhere(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsUnspecified()
}

func (s banner) grpcSecurity() string {
	if s.Config().GRPC.TLS.Enabled() {
		return " (TLS)"
	}
	return ""
}

// security is what our commands need, with TLS or without.
func (s banner) security() string {
	t, server := s.Config().GRPC.TLS, reachable(s.GRPCAddr(), s.Config().GRPC.TLS)
	if !t.Enabled() && len(s.Config().APIKeys) > 0 && !command.IsLoopback(server) {
		return " --plaintext"
	}
	return trust(t, "--ca")
}

func (s banner) natsAddress() string {
	if url := s.NATSURL(); url != "" {
		return url
	}
	if s.Config().NATS.Embedded() {
		return "embedded, no TCP"
	}
	return strings.Join(s.Config().NATS.Servers(), ",")
}

// exampleModel is a model that some route of the kind serves, or empty.
func (s banner) exampleModel(kind string) string {
	for _, r := range s.Config().Routes {
		if r.Kind != kind {
			continue
		}
		switch model := r.Models[0]; {
		case model == config.SandboxVideoModels, model == config.SandboxChatModels:
			return "sandbox-" + kind
		case !strings.Contains(model, "*"):
			return model
		}
		return "MODEL"
	}
	return ""
}
