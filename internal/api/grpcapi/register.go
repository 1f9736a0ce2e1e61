package grpcapi

import "google.golang.org/grpc"

// register registers a service so that no message of a caller without a key is read:
// gRPC runs the interceptor of a unary method when it has the whole message, so that
// anyone could make us hold as much as they like. Here a unary method is a stream of one
// message each way, which is the same on the wire, and its interceptor runs first.
// gRPC itself runs none for such a stream.
func (i *interceptor) register(s *grpc.Server, d grpc.ServiceDesc, service any) {
	methods := d.Methods
	d.Methods, d.Streams = nil, append([]grpc.StreamDesc(nil), d.Streams...)
	for _, m := range methods {
		info := &grpc.StreamServerInfo{FullMethod: "/" + d.ServiceName + "/" + m.MethodName}
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: func(service any, s grpc.ServerStream) error {
			return i.stream(service, s, info, func(service any, s grpc.ServerStream) error {
				answer, err := m.Handler(service, s.Context(), s.RecvMsg, nil)
				if err != nil {
					return err
				}
				return s.SendMsg(answer)
			})
		}})
	}
	s.RegisterService(&d, service)
}
