package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/genbus/genbus/internal/hostile"
)

func (s *siege) attackGRPC() {
	s.send("connections", 900, 4, func(in *hostile.Source, _ int) (string, error) { return s.overHTTP2(hostile.Connection(in, s.target)) })
	s.send("messages", 1500, 8, func(in *hostile.Source, _ int) (string, error) {
		method := hostile.One(in, hostile.Methods)
		return s.overGRPC(method, hostile.Message(in, s.target, method))
	})
}

// overHTTP2 sends the bytes of a connection, and waits until they were read or
// the connection was closed.
func (s *siege) overHTTP2(in hostile.Input) (string, error) {
	c, err := net.Dial("tcp", s.grpcAddr.Addr().String())
	if err != nil {
		return in.Name, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return in.Name, err
	}
	conn, _ := c.(*net.TCPConn)
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = conn.Write(append(in.Bytes, hostile.EndMark()...)) // a server may stop reading
		if !strings.HasPrefix(string(in.Bytes), hostile.Preface) {
			_ = conn.CloseWrite()
		}
	}()
	err = awaitMark(conn)
	_ = c.Close()
	<-written
	return in.Name, err
}

// awaitMark reads frames until the answer to the mark, or the end.
func awaitMark(r net.Conn) error {
	var head [9]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return ended(err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(r, payload); err != nil {
			return ended(err)
		}
		if head[3] == hostile.FramePing && head[4] == hostile.FlagEnd && binary.BigEndian.Uint64(payload) == hostile.Mark {
			return nil
		}
	}
}

// rawCodec sends and receives bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, errors.New("no bytes")
	}
	return b, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	if into, ok := v.(*[]byte); ok {
		*into = append([]byte(nil), data...)
	}
	return nil
}

// overGRPC calls a method with bytes, and reads all answers.
func (s *siege) overGRPC(method string, in hostile.Input) (string, error) {
	name := method + ", " + in.Name
	ctx, cancel := context.WithTimeout(s.t.Context(), answerWithin)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", s.target.Authorization)
	stream, err := s.grpc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil {
		return name, err
	}
	_ = stream.SendMsg(in.Bytes) // an error is told by RecvMsg
	_ = stream.CloseSend()
	for err == nil {
		var answer []byte
		err = stream.RecvMsg(&answer)
	}
	if err == io.EOF || s.harmless(method, err) {
		return name, nil
	}
	return name, fmt.Errorf("%w\nsent %.300q", err, in.Bytes)
}

// harmless tells the refusals from the failures. What gRPC says itself of bytes
// that are no message of the method is called Internal by its own convention.
func (s *siege) harmless(method string, err error) bool {
	switch said := status.Convert(err); said.Code() {
	case codes.Internal:
		if !strings.HasPrefix(said.Message(), "grpc: error unmarshalling request") && !strings.HasPrefix(said.Message(), "grpc: failed to unmarshal") {
			return false
		}
		s.own.count(method)
		return true
	case codes.Unknown, codes.DataLoss, codes.DeadlineExceeded:
		return false
	case codes.Unavailable: // the content is at the upstream
		return strings.HasSuffix(method, "/DownloadVideo")
	default:
		return true
	}
}
