package apitest

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Calls starts the NATS endpoints on the world's connection.
func (w *World) Calls() (stop func()) {
	w.T.Helper()
	end, err := w.ServeNATS(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := end(context.Background()); err != nil {
			w.T.Error(err)
		}
		if err := end(context.Background()); err != nil {
			w.T.Errorf("a second stop: %v", err)
		}
	})
	w.T.Cleanup(stop)
	return stop
}

// Call sends a NATS request and returns its answer.
func (w *World) Call(subj string, header nats.Header, data []byte) *nats.Msg {
	w.T.Helper()
	m, err := w.Broker.Conn().RequestMsg(&nats.Msg{Subject: subj, Header: header, Data: data}, 10*time.Second)
	if err != nil {
		w.T.Fatal(err)
	}
	return m
}
