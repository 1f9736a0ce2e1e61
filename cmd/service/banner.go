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
	b.WriteString("\nTry it:\n")
	if chat != "" {
		fmt.Fprintf(&b, "  curl -N %s/v1/chat/completions -H 'Content-Type: application/json' \\\n"+
			"    -d '{\"model\":%q,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}'\n", h, chat)
	}
	if video != "" {
		fmt.Fprintf(&b, "  grpcurl%s -d '{\"request\":{\"video\":{\"model\":%q,\"prompt\":\"a cat\"}}}' %s genbus.v1.VideoService/CreateVideoTask\n", s.plaintext(), video, g)
		if url := s.natsAddress(); strings.HasPrefix(url, "nats://") {
			fmt.Fprintf(&b, "  nats -s %s req %s -H content-type:application/json '{\"model\":%q,\"prompt\":\"a cat\"}'\n",
				url, s.broker.Names().Call("video", config.DefaultTenant), video)
		}
	}
	return b.String()
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

// plaintext is what grpcurl needs where there is no TLS.
func (s *service) plaintext() string {
	if s.cfg.GRPC.TLS.Enabled() {
		return ""
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
