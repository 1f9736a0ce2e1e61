package service

import (
	"errors"
	"log/slog"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/listener"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
)

// Check validates what New checks before it connects. Every route must be callable, and the TLS
// files must be usable. It makes no connection. It returns the calls of the routes. The error joins
// all problems.
func Check(cfg *config.Config) ([]routes.Call, error) {
	var calls []routes.Call
	table, err := routes.New(cfg, telemetry.NewMetrics("check"), nil)
	if err == nil {
		calls = table.Calls()
		table.Close()
	}
	nowhere := slog.New(slog.DiscardHandler)
	problems := []error{err, secureNATS(cfg.NATS, nowhere, &broker.Embedded{})}
	for _, server := range []struct {
		key string
		tls config.ServerTLS
	}{{"http", cfg.HTTP.TLS}, {"grpc", cfg.GRPC.TLS}} {
		if server.tls.Enabled() {
			if _, err := listener.Secure(tlsFiles(server.tls), nowhere); err != nil {
				problems = append(problems, named(server.key+".addr", server.key+".tls", err))
			}
		}
	}
	return calls, errors.Join(problems...)
}
