package grpcapi

import "google.golang.org/grpc"

// register registers a service in such a way that messages of callers without a key are not read.
// For a unary method, gRPC reads the whole message before it runs the interceptor, so anyone could
// exhaust the memory. This server therefore registers unary methods as streams with one message in
// each direction, which look the same on the wire. The registered handler runs the interceptor
// itself, because gRPC runs none for a method that streams in neither direction.
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
