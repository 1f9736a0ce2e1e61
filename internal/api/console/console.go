// Package console serves the web pages of operators under /console. It is a client of
// OperatorService and calls it with the operator's key, so that keys, limits and the audit log work
// as for the API. Its only state is the open pages.
package console

import (
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// Options configures a Console. All fields except LocalKey are required.
type Options struct {
	Config  *config.Live
	Callers *core.Callers
	// Content serves a video of the tenant's job named in the path. ChatEvents serves the events of
	// a chat.
	Content, ChatEvents func(w http.ResponseWriter, r *http.Request, tenant string)
	// GRPC reaches the services of this process.
	GRPC    grpc.ClientConnInterface
	Logger  *slog.Logger
	Version string
	// LocalKey is the key of core.LocalOperator. With it, the console needs no login while no
	// operator key is configured. Set it only if the process is reachable from its own machine
	// alone.
	LocalKey string
	Names    subject.Space
	// GRPCAddr and NATSURL are the addresses that the Try page shows to clients. NATSURL may be
	// empty if unknown.
	GRPCAddr, NATSURL string
	// WriteTimeout bounds one write to a browser.
	WriteTimeout time.Duration
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	Options
	api    genbusv1.OperatorServiceClient
	mux    *http.ServeMux
	origin *http.CrossOriginProtection
	live   *hub
	seen   *seen

	assets    assets
	templates map[string]*template.Template // by page name; each has the parts "layout" and "main"
}
