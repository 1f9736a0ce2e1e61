package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/genbus/genbus/internal/api/core"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/registry"
)

// vendorRoutes mounts the paths of every protocol that has a surface for its vendor's own clients.
func (h *Handler) vendorRoutes() {
	h.surfaces = map[string]upstream.Surface{}
	for _, p := range registry.All() {
		if p.Surface == nil {
			continue
		}
		segment := h.cfg.Now().HTTP.Segments[p.Name]
		h.surfaces[segment] = p.Surface
		for _, pattern := range p.Surface.Patterns() {
			method, path, _ := strings.Cut(pattern, " ")
			h.mux.HandleFunc(method+" /"+segment+path, h.vendor(p))
		}
	}
}

// surfaceOf returns the surface of the vendor whose segment a path begins with, or nil.
func (h *Handler) surfaceOf(path string) upstream.Surface {
	segment, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return h.surfaces[segment]
}

// vendor returns a handler that serves a vendor's own clients, in the vendor's envelopes.
func (h *Handler) vendor(p upstream.Protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &vendorExchange{exchange: &exchange{response: h.asResponse(w, r), r: r, h: h}, wire: p}
		if err := x.run(x.identify, x.serve); err != nil {
			x.fail(err)
		}
	}
}

// vendorExchange is one call on a vendor's path.
type vendorExchange struct {
	*exchange
	wire upstream.Protocol
}

// identify finds the tenant by an API key or else by the vendor's signature. It tries the key first
// because a key may look like a signature.
func (x *vendorExchange) identify(*exchange) (string, error) {
	tenant, err := x.byKey()
	if err != nil {
		return x.bySignature(err)
	}
	return tenant, nil
}

// bySignature finds the tenant by the vendor's signature. If the access key is known and the
// signature covers the body, bySignature reads the body first. If the request is not signed, it
// returns refusal.
func (x *vendorExchange) bySignature(refusal error) (string, error) {
	signature, signed := x.wire.Surface.Signature(x.r, nil)
	if !signed {
		return "", refusal
	}
	if tenant, _, known := x.h.cfg.Now().Pair(signature.AccessKey); known && signature.CoversBody {
		// The signature has not been verified yet, so read no more than the tenant may send. Clients
		// sign the bytes that they send.
		raw, err := x.encodedBody(min(x.bodyLimit(), int64(x.h.cfg.LimitsOf(tenant).MaxBodyBytes)))
		if err != nil {
			return "", err
		}
		signature, _ = x.wire.Surface.Signature(x.r, raw)
	}
	return x.h.core.Callers.Signer(signature)
}

func (x *vendorExchange) serve(*exchange) (err error) {
	var raw []byte
	if x.r.Method == http.MethodPost {
		if raw, err = x.body(); err != nil {
			return err
		}
	}
	call, err := x.wire.Surface.Read(x.r, raw)
	if err != nil {
		return err
	}
	switch call.Op {
	case upstream.CreateTask:
		return x.create(call)
	case upstream.GetTask:
		return x.get(call)
	case upstream.ListTasks:
		if lister, ok := x.wire.Surface.(upstream.Lister); ok {
			return x.list(lister, call)
		}
	}
	return errcode.New(errcode.Internal, "protocol %s cannot answer the call that it read", x.wire.Name)
}

func (x *vendorExchange) create(call upstream.Call) error {
	req, err := x.request(subject.Video, call.Body)
	if err != nil {
		return err
	}
	// With two unrelated IDs, the task could not be found by the vendor's ID. A genbus in front of
	// this one sends both, but its external_task_id begins with the idempotency key.
	if _, own, _ := strings.Cut(call.RequestID, ":"); req.RequestID != "" && call.RequestID != "" && !strings.HasPrefix(own, req.RequestID) {
		return errcode.Invalid([]errcode.Violation{{Field: "Idempotency-Key", Description: "and external_task_id both name the request, and the second does not begin with the first; send one of them"}})
	}
	req.Protocol, req.RequestID = x.wire.Name, cmp.Or(call.RequestID, req.RequestID)
	e, err := x.h.core.Jobs.Submit(x.ctx(), req)
	if err != nil {
		return err
	}
	return x.answer(call, core.VideoOf(e))
}

func (x *vendorExchange) get(call upstream.Call) error {
	id := call.ID
	if id == "" {
		id = admission.Request{Kind: subject.Video, Tenant: x.tenant, RequestID: call.RequestID}.JobID()
	}
	e, err := x.h.core.Jobs.Get(x.ctx(), subject.JobName{Kind: subject.Video, Tenant: x.tenant, ID: id})
	if err != nil {
		return err
	}
	return x.answer(call, core.VideoOf(e))
}

func (x *vendorExchange) answer(call upstream.Call, t *genbusv1.VideoTask) error {
	x.job(t)
	status, answer := x.wire.Surface.Task(call, x.linked(t), x.requestID())
	return x.json(status, answer)
}

// maxListed is the number of tasks that numbered pages can reach, counted from the newest one.
const maxListed = 10_000

// list answers with a numbered page, which may take several queries. It skips the previous pages
// without reading their tasks.
func (x *vendorExchange) list(lister upstream.Lister, call upstream.Call) error {
	if call.Page*call.Size > maxListed {
		return errcode.New(errcode.InvalidPageToken, "only the newest %d tasks can be listed by page number", maxListed)
	}
	var page []*genbusv1.VideoTask
	q := jobtable.Query{Kind: subject.Video, Tenant: x.tenant, Offset: (call.Page - 1) * call.Size}
	for len(page) < call.Size {
		q.Size = min(call.Size-len(page), jobtable.MaxPage)
		got, err := x.h.core.Jobs.List(x.ctx(), q)
		if err != nil {
			return err
		}
		for _, e := range got.Jobs {
			page = append(page, x.linked(core.VideoOf(e)))
		}
		if q.Token, q.Offset = got.NextToken, 0; q.Token == "" {
			break
		}
	}
	return x.json(http.StatusOK, lister.Tasks(call, page, x.requestID()))
}

func (x *vendorExchange) requestID() string { return x.Header().Get("X-Request-Id") }
