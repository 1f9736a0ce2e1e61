package main

import (
	"fmt"
	"strings"

	"github.com/genbus/genbus/internal/config"
)

// banner says where the service listens and how to try it.
func (s *service) banner() string {
	var b strings.Builder
	h, g := s.httpAddress(), s.grpcAddr.Addr()
	fmt.Fprintf(&b, "genbus %s\n  HTTP  %s\n  gRPC  %s%s\n  NATS  %s\n", version(), h, g, s.grpcSecurity(), s.natsAddress())
	video, chat := s.exampleModel(config.KindVideo), s.exampleModel(config.KindChat)
	if video == "" && chat == "" {
		b.WriteString("\nNo upstream is configured, so every request is refused. Set GENBUS_UPSTREAM_URL and GENBUS_UPSTREAM_KEY,\n" +
			"write a file and set GENBUS_CONFIG (examples/genbus.yaml), or start with --sandbox.\n")
		return b.String()
	}
	b.WriteString("\nTry it" + s.unsaid() + ":\n")
	if chat != "" {
		fmt.Fprintf(&b, "  curl -N%s %s/v1/chat/completions -H 'Content-Type: application/json'%s \\\n"+
			"    -d '{\"model\":%q,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}'\n", trust(s.cfg.HTTP.TLS, "--"), h, s.authorization(), chat)
	}
	if video != "" {
		fmt.Fprintf(&b, "  grpcurl%s%s -d '{\"request\":{\"video\":{\"model\":%q,\"prompt\":\"a cat\"}}}' %s genbus.v1.VideoService/CreateVideoTask\n", s.plaintext(), s.authorization(), video, g)
		if url := s.natsAddress(); strings.HasPrefix(url, "nats://") && s.cfg.NATS.User == "" {
			fmt.Fprintf(&b, "  nats -s %s req %s -H content-type:application/json '{\"model\":%q,\"prompt\":\"a cat\"}'\n",
				url, s.broker.Names().Call("video", s.exampleTenant()), video)
		}
	}
	return b.String()
}

// unsaid explains the variables of the lines to try: the banner knows no key, and no
// file of the client.
func (s *service) unsaid() string {
	var what []string
	if len(s.cfg.APIKeys) > 0 {
		what = append(what, "KEY: an API key")
	}
	if s.cfg.HTTP.TLS.Enabled() || s.cfg.GRPC.TLS.Enabled() {
		what = append(what, "CA: the file of the certificates to trust")
	}
	if s.cfg.HTTP.TLS.ClientCAFile != "" || s.cfg.GRPC.TLS.ClientCAFile != "" {
		what = append(what, "CERT, CERT_KEY: the files of a client certificate")
	}
	if len(what) == 0 {
		return ""
	}
	return " (" + strings.Join(what, "; ") + ")"
}

// authorization is the header that curl and grpcurl send where a key is wanted.
func (s *service) authorization() string {
	if len(s.cfg.APIKeys) == 0 {
		return ""
	}
	return ` -H "Authorization: Bearer $KEY"`
}

// exampleTenant is one of whom there is a key, or who everybody is.
func (s *service) exampleTenant() string {
	if len(s.cfg.APIKeys) == 0 {
		return config.DefaultTenant
	}
	return s.cfg.APIKeys[0].Tenant
}

// trust is what a client needs for a server's TLS, with the client's own dashes.
func trust(t config.ServerTLS, dashes string) string {
	if !t.Enabled() {
		return ""
	}
	flags := " " + dashes + `cacert "$CA"`
	if t.ClientCAFile != "" {
		flags += " " + dashes + `cert "$CERT" ` + dashes + `key "$CERT_KEY"`
	}
	return flags
}

func (s *service) httpAddress() string {
	scheme := "http"
	if s.cfg.HTTP.TLS.Enabled() {
		scheme = "https"
	}
	return scheme + "://" + s.httpAddr.Addr().String()
}

func (s *service) grpcSecurity() string {
	if s.cfg.GRPC.TLS.Enabled() {
		return " (TLS)"
	}
	return ""
}

// plaintext is what grpcurl needs, with TLS or without.
func (s *service) plaintext() string {
	if s.cfg.GRPC.TLS.Enabled() {
		return trust(s.cfg.GRPC.TLS, "-")
	}
	return " -plaintext"
}

func (s *service) natsAddress() string {
	if url := s.broker.ClientURL(); url != "" {
		return url
	}
	if s.cfg.NATS.Embedded() {
		return "embedded, no TCP"
	}
	return strings.Join(s.cfg.NATS.Servers(), ",")
}

// exampleModel is a model that some route of the kind serves, or empty.
func (s *service) exampleModel(kind string) string {
	for _, r := range s.cfg.Routes {
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
