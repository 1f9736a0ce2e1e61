package faultinject

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/genbus/genbus/test/faultinject/brief"
)

// movedPath is the prefix of redirect targets.
const movedPath = "/faultinject/moved"

var (
	errCut          = errors.New("the connection is cut on purpose")
	errDisconnected = errors.New("the client has left")
)

// exchange is one request and its answer.
type exchange struct {
	wire     *wire
	req      *http.Request
	arrived  time.Time
	op       Op
	body     []byte
	nth      int
	decision Decision
	post     *Post // nil if the ledger does not record the request
}

// run answers the request. If it returns an error, the connection must be reset.
func (x *exchange) run() error {
	u := x.wire.upstream
	if path, moved := strings.CutPrefix(x.req.URL.Path, movedPath); moved {
		return x.moved(path)
	}
	if strings.HasPrefix(x.req.URL.Path, "/faultinject/") {
		return x.good(u.control)
	}
	x.op = opOf(x.req)
	if x.op == "" {
		return x.good(u.sandbox)
	}
	return x.noted(x.req.URL.Path, x.meet)
}

// moved serves a request that followed a redirect.
func (x *exchange) moved(path string) error {
	followed := x.req.URL.Path
	x.req.URL.Path, x.req.URL.RawPath = path, ""
	x.op = opOf(x.req)
	return x.noted(followed, func() error {
		if _, err := x.count(); err != nil {
			return err
		}
		return x.good(x.wire.upstream.sandbox)
	})
}

// noted calls answer. It records creates and chats in the ledger.
func (x *exchange) noted(path string, answer func() error) error {
	l := x.wire.upstream.ledger
	if x.op == OpCreate || x.op == OpChat {
		h := x.req.Header
		x.post = l.add(Post{Time: x.arrived, Op: x.op, Path: path, Key: h.Get("Idempotency-Key"), Client: h.Get(ClientHeader)})
	}
	err := answer()
	l.update(x.post, func(p *Post) { p.Ended, p.Answered = time.Now(), err == nil })
	return err
}

// count counts the request and returns the name under which it is counted.
func (x *exchange) count() (string, error) {
	name, err := x.name()
	if err != nil {
		return "", err
	}
	x.nth = x.wire.upstream.ledger.next(x.op, name)
	x.wire.upstream.ledger.update(x.post, func(p *Post) { p.Nth = x.nth })
	return name, nil
}

// decide chooses the fault of the request.
func (x *exchange) decide() error {
	name, err := x.count()
	if err != nil {
		return err
	}
	u := x.wire.upstream
	x.decision = u.mix.Load().Decide(u.seed, x.op, name, x.nth)
	u.ledger.decided(x.op, x.decision.Fault)
	u.ledger.update(x.post, func(p *Post) { p.Fault = x.decision.Fault })
	return nil
}

// name returns the name under which a request is counted. It reads the body only if the headers do
// not contain the name.
func (x *exchange) name() (string, error) {
	if x.op == OpPoll {
		if id := polledID(x.req); id != "" {
			return x.wire.upstream.ledger.origin(id), nil
		}
	} else if key := x.req.Header.Get("Idempotency-Key"); key != "" {
		return key, nil
	}
	if err := x.read(); err != nil {
		return "", err
	}
	if x.op == OpPoll {
		return x.wire.upstream.ledger.origin(taskIDOf(x.body)), nil
	}
	return Marker(x.body), nil
}

// marked records the marker in the part of the body read so far.
func (x *exchange) marked(body []byte) {
	if m := Marker(body); m != "" {
		x.wire.upstream.ledger.update(x.post, func(p *Post) { p.Marker = m })
	}
}

func (x *exchange) read() error {
	if x.body != nil {
		return nil
	}
	body, err := x.wire.body(x.req)
	if err != nil && len(body) == 0 {
		x.wire.upstream.ledger.update(x.post, func(p *Post) { p.Bodiless = true })
	}
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	x.body = append([]byte{}, body...)
	x.marked(x.body)
	if input := brief.Longest(string(x.body)); input != "" {
		x.wire.upstream.ledger.update(x.post, func(p *Post) { p.Input = input })
	}
	return nil
}

func (x *exchange) good(h http.Handler) error {
	return x.serve(h, plan{})
}

// meet applies the chosen fault.
func (x *exchange) meet() error {
	if err := x.decide(); err != nil {
		return err
	}
	switch x.decision.Fault {
	case ResetBefore:
		if x.body == nil {
			x.wire.awaitBody(x.req)
			x.marked(x.wire.arrived(x.req))
		}
		return errCut
	case ResetDuring:
		if x.body == nil {
			x.marked(x.wire.half(x.req))
		}
		return errCut
	default:
	}
	if err := x.read(); err != nil {
		return err
	}
	if refuse := x.refusal(); refuse != nil {
		return x.serve(refuse, plan{})
	}
	if b := x.taskBehaviour(); b != "" {
		x.req.Header.Set("X-Sandbox", b)
	}
	if x.replaces() {
		return x.replace()
	}
	return x.serve(x.wire.upstream.sandbox, x.plan())
}

// serve lets h answer according to p.
func (x *exchange) serve(h http.Handler, p plan) error {
	if err := x.read(); err != nil {
		return err
	}
	ctx, stop := x.wire.watch(x.wire.upstream.ctx)
	defer stop()
	a := x.answer(ctx, p)
	if err := call(h, a, x.request(ctx)); err != nil {
		x.learn(a)
		return err
	}
	x.learn(a) // before finish, because a client that has its answer may check the ledger at once
	return a.finish()
}

// replace lets the sandbox accept the request but sends a different answer.
func (x *exchange) replace() error {
	ctx, stop := x.wire.watch(x.wire.upstream.ctx)
	defer stop()
	held := newAnswer(ctx, nil, x.req, plan{})
	held.hold = true
	if err := call(x.wire.upstream.sandbox, held, x.request(ctx)); err != nil {
		x.learn(held)
		return err
	}
	x.learn(held)
	if x.decision.Fault == ResetAccepted {
		return errCut
	}
	a := x.answer(ctx, plan{})
	x.replacement(held)(a, x.req)
	return a.finish()
}

// answer returns an answer that records its status in the ledger when it is sent.
func (x *exchange) answer(ctx context.Context, p plan) *answer {
	a := newAnswer(ctx, x.wire.conn, x.req, p)
	a.sent = func(status int) { x.wire.upstream.ledger.update(x.post, func(p *Post) { p.Status = status }) }
	a.copied = x.op == OpChat
	return a
}

func (x *exchange) request(ctx context.Context) *http.Request {
	r := x.req.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(x.body))
	r.RemoteAddr = x.wire.conn.RemoteAddr().String()
	return r
}

// learn records whether the sandbox accepted the request.
func (x *exchange) learn(a *answer) {
	if x.post == nil || cmp.Or(a.status, http.StatusOK) >= 300 {
		return
	}
	l := x.wire.upstream.ledger
	if x.op == OpChat {
		text := brief.Of(contentOf(a.produced()))
		l.update(x.post, func(p *Post) { p.Accepted, p.Text = true, text })
		return
	}
	if id := taskIDOf(a.body.Bytes()); id != "" {
		l.paid(x.post, id)
	}
}

// call runs a handler. It returns an error if the handler cut the connection, which the sandbox
// does with a panic.
func call(h http.Handler, a *answer, r *http.Request) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			if cause != any(http.ErrAbortHandler) {
				panic(cause)
			}
			err = errCut
		}
	}()
	h.ServeHTTP(a, r)
	return nil
}
