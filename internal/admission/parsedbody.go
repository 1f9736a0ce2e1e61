package admission

import (
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/registry"
)

// parsedBody is the content of a body that can be read without its route.
type parsedBody struct {
	// protocol is the protocol of a video's body; nil for chats.
	protocol   *upstream.Protocol
	model      string
	head       body.Head // of a chat
	violations []errcode.Violation
}

// readBody finds the protocol of a body: the one that the caller names, the default for a typed
// request, otherwise the one that the model's route speaks.
func (a *Admission) readBody(r Request) parsedBody {
	d := r.Body
	if r.Kind == subject.Chat {
		head := d.Head()
		return parsedBody{model: head.Model, head: head, violations: d.CheckChat()}
	}
	if r.Typed != nil {
		return readVideo(registry.Default(), d)
	}
	if p, ok := registry.Find(r.Protocol); ok {
		return readVideo(p, d)
	}
	return a.guess(d)
}

func readVideo(p upstream.Protocol, d body.Document) parsedBody {
	return parsedBody{protocol: &p, model: d.Text(p.Bodies.ModelMember()), violations: p.Bodies.Check(d)}
}

// guess tries the protocols in turn. Each names the model in its own member; the protocol fits if
// that model's route speaks it. If none fits, guess returns the first that names a model.
func (a *Admission) guess(d body.Document) parsedBody {
	all := registry.All()
	first := all[0]
	named := false
	for _, p := range all {
		model := d.Text(p.Bodies.ModelMember())
		if model == "" {
			continue
		}
		if route, ok := a.cfg.Now().Route(config.KindVideo, model); ok && route.Protocol == p.Name {
			return readVideo(p, d)
		}
		if !named {
			first, named = p, true
		}
	}
	return readVideo(first, d)
}

// route finds the model's route. It refuses a body in another protocol than the route's, where the
// body would mean something else.
func (a *Admission) route(r Request, f parsedBody, c *Checked) error {
	cfg := a.cfg.Now()
	route, ok := cfg.Route(string(r.Kind), c.Model)
	if !ok {
		return modelNotFound(cfg, r.Kind, c.Model)
	}
	wanted := r.Protocol
	if wanted == "" && f.protocol != nil && r.Typed == nil {
		wanted = f.protocol.Name
	}
	if wanted != "" && wanted != route.Protocol {
		return wrongProtocol(cfg, route, c.Model, wanted)
	}
	c.Route = route
	return nil
}

// modelNotFound mentions if a route of the other kind serves the model.
func modelNotFound(cfg *config.Config, kind subject.Kind, model string) error {
	other, but := config.KindVideo, ""
	if kind == subject.Video {
		other = config.KindChat
	}
	if _, ok := cfg.Route(other, model); ok {
		but = ", but a " + other + " route does"
	}
	return errcode.New(errcode.ModelNotFound, "no %s route serves the model %q%s; see GET /v1/models", kind, errcode.Clip(model, 128), but)
}

// wrongProtocol names the correct path.
func wrongProtocol(cfg *config.Config, route config.Route, model, wanted string) error {
	where := ""
	if p, ok := registry.Find(route.Protocol); ok {
		where = "; create it with " + registry.CreatePath(p, cfg.HTTP.Segments[p.Name]) + " and a body of that protocol"
	}
	return errcode.New(errcode.WrongProtocol, "the model %q is served by protocol %q, not %q%s",
		errcode.Clip(model, 128), route.Protocol, errcode.Clip(wanted, 64), where)
}
