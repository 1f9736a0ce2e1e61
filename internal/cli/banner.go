package cli

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

// fits reports whether the banner may be written to out. A terminal always gets it. The banner must
// not end up in a JSON log, and log collectors often merge stdout and stderr. os.DevNull looks like
// a terminal, but the addresses would be lost there.
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

// banner describes where a service listens and how to try it.
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
	b.WriteString("\nTry it" + s.explainVariables() + ":\n")
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

// hasConsole reports whether the console is usable. It needs an operator key, or a loopback address
// and no API keys.
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

// goRun matches programs started by "go run", which are in a temporary directory or the build
// cache.
var goRun = regexp.MustCompile(`[/\\](?:go-build\d+[/\\]b\d+[/\\]exe|[0-9a-f]{64}-d)[/\\](genbus|service)(?:\.exe)?$`)

// programCommand returns the command that starts program again.
func programCommand(program string) string {
	if m := goRun.FindStringSubmatch(program); m != nil {
		return "go run ./cmd/" + m[1]
	}
	return program
}

// serverFlag returns the flag for server, or "" if a command without the flag uses this server.
func serverFlag(server string) string {
	if server == command.DefaultServer && os.Getenv(command.EnvServer) == "" {
		return ""
	}
	return " --server " + server
}

func (s banner) idle() bool { return len(s.Config().Routes) == 0 }

// explainVariables explains the variables in the sample commands, because the banner knows neither
// API keys nor the client's files.
func (s banner) explainVariables() string {
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

// authorization returns the curl header if an API key is required.
func (s banner) authorization() string {
	if len(s.Config().APIKeys) == 0 {
		return ""
	}
	return ` -H "Authorization: Bearer $KEY"`
}

// environment returns the variable that passes the API key to a command, if one is required.
func (s banner) environment() string {
	if len(s.Config().APIKeys) == 0 {
		return ""
	}
	return command.EnvAPIKey + `="$KEY" `
}

// exampleTenant returns the tenant of the first API key, or the default tenant if there are no
// keys.
func (s banner) exampleTenant() string {
	if len(s.Config().APIKeys) == 0 {
		return config.DefaultTenant
	}
	return s.Config().APIKeys[0].Tenant
}

// trust returns the client's TLS flags for a server. ca is the client's flag for the CA file.
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

// tryHTTP returns an HTTP URL that works on this machine.
func (s banner) tryHTTP() string {
	scheme, _, _ := strings.Cut(s.httpAddress(), "://")
	return scheme + "://" + reachable(s.HTTPAddr(), s.Config().HTTP.TLS)
}

// reachable returns the host and port for a client on this machine. An unspecified address becomes
// localhost, or $HOST with TLS, because the certificate must name the host.
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

// security returns the TLS flags of genbus commands.
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

// exampleModel returns a model of the first route of a kind, or an empty string.
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
