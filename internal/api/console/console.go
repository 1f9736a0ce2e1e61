// Package console serves the operator console under /console. It calls OperatorService with the
// operator's key, so keys, limits and the audit log apply as they do for the API. Its only state is
// the set of open pages and the accesses recorded recently.
package console

import (
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// Options configures a Console. All fields except LocalKey are required.
type Options struct {
	Config  *config.Live
	Callers *core.Callers
	// Content serves a video, and ChatEvents the events of a chat. The path names the job, which
	// belongs to the tenant.
	Content, ChatEvents func(w http.ResponseWriter, r *http.Request, tenant string)
	// GRPC is a connection to the services of this process.
	GRPC    grpc.ClientConnInterface
	Logger  *slog.Logger
	Version string
	// LocalKey is the key of core.LocalOperator. If it is set, the console needs no login as long
	// as no key of an operator or tenant is configured. Set it only if the process cannot be
	// reached from other machines.
	LocalKey string
	Names    subject.Space
	// GRPCAddr and NATSURL are the addresses for clients that the Try page shows. NATSURL is empty
	// if it is unknown.
	GRPCAddr, NATSURL string
	// WriteTimeout bounds one write to a browser.
	WriteTimeout time.Duration
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	Options
	api    genbusv1grpc.OperatorServiceClient
	mux    *http.ServeMux
	origin *http.CrossOriginProtection
	live   *hub
	seen   *seen

	assets    assets
	templates map[string]*template.Template // by page name; each has the parts "layout" and "main"
}
