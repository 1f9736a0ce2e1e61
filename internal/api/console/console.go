// Package console serves the web pages of operators, under /console. It is a client of
// OperatorService: each page and each action is a call of its methods with the operator's
// own key, so that keys, limits and the audit log are those of the API. It keeps no state but
// the pages that are open.
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

// Options are what a Console works with. All are required but LocalKey.
type Options struct {
	Config  *config.Live
	Callers *core.Callers
	// Content serves a video of a tenant's job, whose id is in the path, and ChatEvents the
	// events of a chat.
	Content, ChatEvents func(w http.ResponseWriter, r *http.Request, tenant string)
	// GRPC reaches the services of this process.
	GRPC    grpc.ClientConnInterface
	Logger  *slog.Logger
	Version string
	// LocalKey is the key of core.LocalOperator: with it the console needs no login while no
	// operator's key is configured. It is for a process that only its own machine reaches.
	LocalKey string
	Names    subject.Space
	// GRPCAddr and NATSURL are where clients reach this process, for the commands that Try shows;
	// NATSURL is empty where that is not known.
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
	templates map[string]*template.Template // by the names of pages; each has the parts "layout" and "main"
}
