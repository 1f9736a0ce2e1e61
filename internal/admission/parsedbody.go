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
	// protocol is the protocol of a video's body. It is nil for chats.
	protocol   *upstream.Protocol
	model      string
	head       body.Head // set only for chats
	violations []errcode.Violation
}

// readBody parses a body. For a video it uses the default protocol for a typed request, the
// protocol that the caller names, or otherwise the protocol of the model's route.
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

// guess tries each protocol in turn. Every protocol has its own member for the model. A protocol
// fits if the route of the model in that member uses it. If none fits, guess uses the first
// protocol whose member is set.
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

// maxModel limits how many bytes of an unknown model name genbus repeats.
const maxModel = 128

// Model returns the model that a refused request names: up to 128 bytes, or "" if its body names
// none.
func (a *Admission) Model(r Request) string { return errcode.Clip(a.readBody(r).model, maxModel) }

// route finds the model's route. It refuses a body that is not in the route's protocol, because the
// body would have a different meaning there.
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

// modelNotFound returns the error for an unknown model. The error says so if a route of the other
// kind serves the model.
func modelNotFound(cfg *config.Config, kind subject.Kind, model string) error {
	other, but := config.KindVideo, ""
	if kind == subject.Video {
		other = config.KindChat
	}
	if _, ok := cfg.Route(other, model); ok {
		but = ", but a " + other + " route does"
	}
	return errcode.New(errcode.ModelNotFound, "no %s route serves the model %q%s; see GET /v1/models", kind, errcode.Clip(model, maxModel), but)
}

// wrongProtocol returns an error that names the correct path.
func wrongProtocol(cfg *config.Config, route config.Route, model, wanted string) error {
	where := ""
	if p, ok := registry.Find(route.Protocol); ok {
		where = "; use " + registry.CreatePath(p, cfg.HTTP.Segments[p.Name]) + " with a body in that protocol"
	}
	return errcode.New(errcode.WrongProtocol, "the model %q is served by protocol %q, not %q%s",
		errcode.Clip(model, maxModel), route.Protocol, errcode.Clip(wanted, 64), where)
}
