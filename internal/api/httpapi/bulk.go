package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/grpcstatus"
)

// eventProgress is the name of SSE events that carry a genbus.v1.BulkProgress.
const eventProgress = "genbus.bulk.progress.v1"

// bulkRoutes mounts the bulk actions. They do not use the generated gateway, which supports neither
// server-sent events nor errors after the first message.
func (h *Handler) bulkRoutes(conn grpc.ClientConnInterface) {
	service := genbusv1grpc.NewOperatorServiceClient(conn)
	h.mux.HandleFunc("POST "+operatorPrefix+"jobs/cancel", bulk(h, service.CancelJobs))
	h.mux.HandleFunc("POST "+operatorPrefix+"dead-letters/redrive", bulk(h, service.RedriveDeadLetters))
	h.mux.HandleFunc("POST "+operatorPrefix+"dead-letters/drop", bulk(h, service.DropDeadLetters))
	h.mux.HandleFunc("POST "+operatorPrefix+"dead-letters/attach", bulk(h, service.AttachUpstreamTasks))
}

// bulk returns a handler for a method that streams its progress. The handler sends the progress as
// server-sent events. An error before the first progress message becomes an HTTP status. A later
// error becomes the last event, genbus.error.v1. The method stops when the client disconnects.
func bulk[M any, Request interface {
	*M
	proto.Message
}](h *Handler, call func(context.Context, Request, ...grpc.CallOption) (grpc.ServerStreamingClient[genbusv1.BulkProgress], error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{response: h.asResponse(w, r), r: r, h: h}
		m := Request(new(M))
		err := x.enterAsOperator()
		if err == nil {
			err = x.message(m)
		}
		if err == nil {
			err = x.bulk(func(ctx context.Context) (grpc.ServerStreamingClient[genbusv1.BulkProgress], error) {
				return call(ctx, m)
			})
		}
		if err != nil {
			x.fail(err)
		}
	}
}

// message decodes the request body into m. An empty body yields an empty message.
func (x *exchange) message(m proto.Message) error {
	raw, err := x.body()
	if err != nil {
		return err
	}
	d := m.ProtoReflect().Descriptor()
	if err := checkMessageBody(d, raw); err != nil || len(bytes.TrimSpace(raw)) == 0 {
		return err
	}
	if protojson.Unmarshal(raw, m) != nil {
		return misfit(x.r.Pattern, d, raw)
	}
	return nil
}

func (x *exchange) bulk(call func(context.Context) (grpc.ServerStreamingClient[genbusv1.BulkProgress], error)) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(x.ctx(),
		"authorization", x.r.Header.Get("Authorization"), "x-request-id", x.r.Header.Get("X-Request-Id")))
	defer cancel() // stops the method if writing progress fails
	stream, err := call(ctx)
	if err != nil {
		return grpcstatus.Error(err)
	}
	out := x.newSSE()
	defer out.stop()
	for {
		p, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return out.endEvents(grpcstatus.Error(err))
		}
		data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(p)
		if err != nil {
			return err
		}
		if err := out.event("", eventProgress, data); err != nil {
			return err
		}
	}
}
