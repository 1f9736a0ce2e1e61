package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/test/hostile"
)

func (s *siege) attackGRPC() {
	s.send("connections", 900, 8, func(in *hostile.Source, _ int) (string, error) { return s.overHTTP2(hostile.Connection(in, s.target)) })
	s.send("messages", 1500, 8, func(in *hostile.Source, _ int) (string, error) {
		method := hostile.One(in, hostile.Methods)
		return s.overGRPC(method, hostile.Message(in, s.target, method))
	})
}

// overHTTP2 sends the bytes over a connection, and waits until the server has read them or closed
// the connection.
func (s *siege) overHTTP2(in hostile.Input) (string, error) {
	c, err := net.Dial("tcp", s.GRPCAddr().String())
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
		_, _ = conn.Write(append(in.Bytes, hostile.EndMark()...)) // the server may stop reading
		if !strings.HasPrefix(string(in.Bytes), hostile.Preface) {
			_ = conn.CloseWrite()
		}
	}()
	err = awaitMark(conn)
	_ = c.Close()
	<-written
	return in.Name, err
}

// awaitMark reads frames until the answer to the mark, or until the connection ends.
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

// rawCodec passes bytes through unchanged.
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

// overGRPC calls a method with raw bytes and reads all answers.
func (s *siege) overGRPC(method string, in hostile.Input) (string, error) {
	name := method + ", " + in.Name
	ctx, cancel := context.WithTimeout(s.t.Context(), answerWithin)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", s.target.Authorization)
	stream, err := s.grpc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil {
		return name, err
	}
	_ = stream.SendMsg(in.Bytes) // RecvMsg returns the error
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

// harmless reports whether err is a refusal rather than a failure. grpc-go itself answers Internal
// to bytes that are not a message of the method, which counts as a refusal.
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
	case codes.Unavailable: // the upstream serves the content
		return strings.HasSuffix(method, "/DownloadVideo")
	default:
		return true
	}
}

// TestManyMembersTakeNoTime proves that the cost of a request does not grow with the square of its
// length. It does not run in parallel because it uses every core.
func TestManyMembersTakeNoTime(t *testing.T) {
	brokertest.Full(t, "takes every core")
	w := newClientWorld(t, sandbox.Options{})
	var extra strings.Builder
	const members = 200_000 / hostileShare
	for i := range members {
		fmt.Fprintf(&extra, `,"k%07d":0`, i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := genbusv1grpc.NewVideoServiceClient(w.grpc).CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-kling", Prompt: "a cat", ExtraJson: []byte("{" + extra.String()[1:] + "}")}},
	}})
	if ctx.Err() != nil {
		t.Errorf("%d members are not read within 20 s: %v", members, err)
	}
}

// TestNoMessageIsReadOfAStranger proves that a call without a valid key is refused over gRPC before
// its message is read.
func TestNoMessageIsReadOfAStranger(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	grown := f.watchHeap()
	const size, calls = 8 << 20, 32
	message := make([]byte, 5+size-1)
	binary.BigEndian.PutUint32(message[1:], size)
	for method, authorization := range map[string]string{
		hostile.CreateMethod: "", "/genbus.v1.VideoService/GetVideoTask": "Bearer wrong", "/genbus.v1.ModelService/ListModels": "Basic eDp5",
		"/grpc.health.v1.Health/Check": "", "/grpc.health.v1.Health/Watch": "", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": "",
	} {
		h := dialH2(t, f.grpc)
		for i := range calls {
			stream := uint32(2*i + 1)
			err := h.open(stream, method, authorization)
			if err == nil {
				err = h.send(stream, message)
			}
			if err != nil && !errors.Is(err, errRefused) {
				break // the connection is closed
			}
		}
		await(t, "the refusals", func() bool { n := h.refusals(); return n < 0 || n >= calls })
	}
	if n := grown(); n > 64 {
		t.Errorf("strangers have made the heap grow by %.0f MiB", n)
	}
}

// TestStreamsOfOneConnection proves that one connection of a tenant has a limited number of
// concurrent calls and limited metadata.
func TestStreamsOfOneConnection(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	before := f.must(metricGoroutines)
	h := dialH2(t, f.grpc)
	for i := range 5000 {
		if err := h.open(uint32(2*i+1), hostile.CreateMethod, "Bearer "+hostileKey); err != nil {
			break
		}
	}
	await(t, "the calls beyond the limit to be refused", func() bool { n := h.refusals(); return n < 0 || n > 3000 })
	if n := f.must(metricGoroutines) - before; n > 2500 {
		t.Errorf("one connection has %.0f goroutines", n)
	}
	grown := f.watchHeap()
	long := strings.Repeat("a", 1<<20)
	for range 4 {
		h := dialH2(t, f.grpc)
		for i := range 20 {
			fields := []string{"a1", long, "a2", long, "a3", long, "a4", long, "a5", long, "a6", long, "a7", long, "a8", long}
			if err := h.open(uint32(2*i+1), hostile.CreateMethod, "Bearer "+hostileKey, fields...); err != nil {
				break
			}
		}
	}
	if err := f.served(servedWithin); err != nil {
		t.Error(err)
	}
	if n := grown(); n > 64 {
		t.Errorf("metadata have made the heap grow by %.0f MiB", n)
	}
}
