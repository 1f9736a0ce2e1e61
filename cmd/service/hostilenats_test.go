package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/genbus/genbus/internal/hostile"
)

func (s *siege) attackNATS() {
	s.send("calls", 700, 8, func(in *hostile.Source, _ int) (string, error) {
		return s.overCall(hostile.Notes(in, s.target, "genbus.call"))
	})
	s.send("inbox", 500, 4, func(in *hostile.Source, _ int) (string, error) {
		return s.overInbox(hostile.Notes(in, s.target, "genbus.request"))
	})
	s.send("lines", 250, 4, func(in *hostile.Source, _ int) (string, error) {
		return s.overNATS(hostile.NATSLines(in, s.target, hostile.One(in, []string{"genbus.call", "genbus.request"})))
	})
}

func message(n hostile.Note) *nats.Msg {
	m := nats.NewMsg(n.Subject)
	m.Data = n.Data
	for name, values := range n.Header {
		m.Header[name] = values
	}
	return m
}

// overCall sends a request and wants an answer that is no failure of the
// service.
func (s *siege) overCall(n hostile.Note) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), answerWithin)
	defer cancel()
	reply, err := s.nc.RequestMsgWithContext(ctx, message(n))
	switch {
	case refusedHere(err):
		return n.Name, nil
	case err != nil:
		return n.Name, fmt.Errorf("%w\nsent to %q: %.300q %v", err, n.Subject, n.Data, n.Header)
	}
	code, _ := strconv.Atoi(reply.Header.Get(micro.ErrorCodeHeader))
	if code >= 500 || strings.Contains(string(reply.Data), hostileKey) {
		return n.Name, fmt.Errorf("%v %.300q\nsent to %q: %.300q %v", reply.Header, reply.Data, n.Subject, n.Data, n.Header)
	}
	return n.Name, nil
}

// refusedHere tells messages that the client does not send.
func refusedHere(err error) bool {
	return errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrNoResponders)
}

// overInbox stores a request. Whether JetStream takes it is its own affair; what
// it has taken must be gone in the end.
func (s *siege) overInbox(n hostile.Note) (string, error) {
	m := message(n)
	m.Reply = nats.NewInbox()
	if err := s.nc.PublishMsg(m); err != nil && !refusedHere(err) {
		return n.Name, err
	}
	return n.Name, nil
}

// overNATS sends the bytes of a client's connection, and waits for its end.
func (s *siege) overNATS(in hostile.Input) (string, error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(s.nc.ConnectedUrl(), "nats://"))
	if err != nil {
		return in.Name, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return in.Name, err
	}
	conn, _ := c.(*net.TCPConn)
	_, _ = conn.Write(in.Bytes) // a server may stop reading
	_ = conn.CloseWrite()
	_, err = io.Copy(io.Discard, conn)
	return in.Name, ended(err)
}
