package api

import (
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/upstream"
)

// vendorRoutes mounts the paths of every protocol that has its own.
func (h *web) vendorRoutes() {
	for _, p := range protocol.All() {
		if p.Surface == nil {
			continue
		}
		for _, pattern := range p.Surface.Patterns() {
			method, path, _ := strings.Cut(pattern, " ")
			h.mux.HandleFunc(method+" /"+h.cfg.HTTP.Segments[p.Name]+path, h.vendor(p))
		}
	}
}

// vendor serves one vendor's own clients, in the vendor's own envelopes.
func (h *web) vendor(p upstream.Protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &vendorExchange{exchange: &exchange{response: asResponse(w, r), r: r, web: h}, wire: p}
		if err := x.serve(); err != nil {
			x.refuse(err)
		}
	}
}

// vendorExchange is one call on a vendor's path.
type vendorExchange struct {
	*exchange
	wire upstream.Protocol
}

func (x *vendorExchange) serve() error {
	if err := x.web.core.drain.refusal(); err != nil {
		return err
	}
	var raw []byte
	var err error
	if x.r.Method == http.MethodPost {
		if raw, err = x.body(); err != nil {
			return err
		}
	}
	if x.tenant, err = x.authenticate(raw); err != nil {
		return err
	}
	if x.r.Header["Traceparent"] != nil {
		x.r = x.r.WithContext(x.web.propagator.Extract(x.r.Context(), propagation.HeaderCarrier(x.r.Header)))
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
		return x.list(call)
	default:
		return fault.New(fault.Internal, "protocol %s read a call that asks for nothing", x.wire.Name)
	}
}

// authenticate finds the tenant by the vendor's own signature, made with a key
// pair of the tenant, or by an API key.
func (x *vendorExchange) authenticate(raw []byte) (string, error) {
	signature, signed := x.wire.Surface.Signature(x.r, raw)
	if !signed || len(x.web.cfg.APIKeys) == 0 {
		return tenantOf(x.web.cfg, x.r.Header.Get("Authorization"))
	}
	tenant, secret, known := x.web.cfg.Pair(signature.AccessKey)
	// An unknown access key takes as long as a wrong signature.
	if err := signature.Verify(secret.Reveal(), time.Now()); err != nil || !known {
		if !known {
			return "", fault.New(fault.InvalidAPIKey, "the access key of the signature is unknown")
		}
		return "", fault.New(fault.InvalidAPIKey, "the signature does not fit: %w", err)
	}
	return tenant, nil
}

func (x *vendorExchange) create(call upstream.Call) error {
	req, err := x.request(subject.Video, call.Body)
	if err != nil {
		return err
	}
	if req.Protocol = x.wire.Name; req.RequestID == "" {
		req.RequestID = call.RequestID
	}
	e, err := x.web.core.submit(x.ctx(), req)
	if err != nil {
		return err
	}
	return x.answer(call, video(e))
}

func (x *vendorExchange) get(call upstream.Call) error {
	id := call.ID
	if id == "" {
		id = admission.Request{Kind: subject.Video, Tenant: x.tenant, RequestID: call.RequestID}.JobID()
	}
	e, err := x.web.core.get(x.ctx(), subject.TaskName{Kind: subject.Video, Tenant: x.tenant, ID: id})
	if err != nil {
		return err
	}
	return x.answer(call, video(e))
}

func (x *vendorExchange) answer(call upstream.Call, t *genbusv1.VideoTask) error {
	x.jobID(t.GetId())
	status, answer := x.wire.Surface.Task(call, x.linked(t), x.requestID())
	return x.json(status, answer)
}

// maxListed bounds how far back a vendor's numbered pages reach.
const maxListed = 10_000

// list reads a numbered page: the pages before it are passed over.
func (x *vendorExchange) list(call upstream.Call) error {
	if call.Page*call.Size > maxListed {
		return fault.New(fault.InvalidPageToken, "only the newest %d tasks can be listed by page number", maxListed)
	}
	first, last := (call.Page-1)*call.Size, call.Page*call.Size
	var page []*genbusv1.VideoTask
	q := tasklog.Query{Kind: subject.Video, Tenant: x.tenant, Size: tasklog.MaxPage}
	for at := 0; at < last; {
		got, err := x.web.core.list(x.ctx(), q)
		if err != nil {
			return err
		}
		for _, e := range got.Jobs {
			if at >= first && at < last {
				page = append(page, x.linked(video(e)))
			}
			at++
		}
		if q.Token = got.NextToken; q.Token == "" {
			break
		}
	}
	return x.json(http.StatusOK, x.wire.Surface.Tasks(call, page, x.requestID()))
}

// refuse answers an error in the vendor's envelope.
func (x *vendorExchange) refuse(err error) {
	f := fault.From(err)
	x.note(err)
	if x.status != 0 {
		return
	}
	x.jobID(f.JobID)
	f.SetHeader(x.Header())
	status, answer := x.wire.Surface.Refuse(f, x.requestID())
	_ = x.json(status, answer) // never fails
}

func (x *vendorExchange) requestID() string { return x.Header().Get("X-Request-Id") }
