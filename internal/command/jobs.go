package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
)

// jobs abstracts the transport of user commands. natsJobs uses NATS and grpcJobs gRPC.
type jobs interface {
	SubmitVideo(ctx context.Context, r *genbusv1.VideoRequest) (*genbusv1.VideoTask, error)
	SubmitChat(ctx context.Context, r *genbusv1.ChatRequest) (*genbusv1.Chat, error)
	FollowVideo(ctx context.Context, id string, after uint64) iter.Seq2[*genbusv1.VideoTaskEvent, error]
	FollowChat(ctx context.Context, id string) iter.Seq2[client.ChatItem, error]
	// Reply returns the whole reply of a completed chat, wherever it is stored.
	Reply(ctx context.Context, chat *genbusv1.Chat) (*genbusv1.ChatCompletion, error)
}

// natsConnection holds the flags for connecting to NATS.
type natsConnection struct {
	NATS   string `help:"NATS address." name:"nats" placeholder:"URL" env:"GENBUS_NATS_URL"`
	User   string `help:"NATS user; the password comes from NATS_PASSWORD." env:"NATS_USER"`
	Creds  string `help:"NATS credentials file." type:"path" env:"GENBUS_NATS_CREDS_FILE"`
	NATSCA string `help:"PEM file of certificates to trust if NATS uses TLS." name:"nats-ca" type:"path"`
	Inbox  string `help:"Prefix of reply subjects, if the NATS user may use only its own prefix." default:"_INBOX"`
	Prefix string `help:"Subject prefix: nats.prefix of genbus." default:"genbus"`
}

// dial connects to NATS with the given password.
func (n *natsConnection) dial(password string) (*nats.Conn, error) {
	if err := checkAddresses(n.NATS); err != nil {
		return nil, err
	}
	opts := []nats.Option{nats.Name("genbus command"), nats.MaxReconnects(-1), nats.CustomInboxPrefix(n.Inbox), nats.DisconnectErrHandler(reportDisconnect), nats.ReconnectHandler(again)}
	if n.User != "" {
		opts = append(opts, nats.UserInfo(n.User, password))
	}
	if n.Creds != "" {
		opts = append(opts, nats.UserCredentials(n.Creds))
	}
	if n.NATSCA != "" {
		opts = append(opts, nats.RootCAs(n.NATSCA))
	}
	nc, err := nats.Connect(n.NATS, opts...)
	if err != nil {
		code := ExitUnavailable
		if errors.Is(err, nats.ErrAuthorization) {
			code = ExitDenied
		}
		return nil, exitError{code, fmt.Errorf("cannot connect to NATS at %s (--nats): %w", hosts(n.NATS), err)}
	}
	return nc, nil
}

// reportDisconnect reports a lost connection. If the command itself closed the connection, err is
// nil.
func reportDisconnect(_ *nats.Conn, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "genbus: lost the NATS connection, waiting:", err)
	}
}

func again(*nats.Conn) { fmt.Fprintln(os.Stderr, "genbus: restored the NATS connection") }

// checkAddresses rejects addresses that nats.go would misinterpret and quote in its errors, for
// example those with unescaped characters in a password.
func checkAddresses(list string) error {
	for i, address := range strings.Split(list, ",") {
		address = strings.TrimSpace(address)
		if !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			return WrongUse("--nats: address %d is invalid; write nats://host:port, and escape / as %%2F, ? as %%3F, # as %%23 and , as %%2C in a user or password", i+1)
		}
	}
	return nil
}

// hosts removes users and passwords from a list of addresses. It removes everything before the last
// @.
func hosts(list string) string {
	if at := strings.LastIndex(list, "@"); at >= 0 {
		return "…" + list[at:]
	}
	return list
}

type natsJobs struct{ *client.Client }

func (n natsJobs) Reply(ctx context.Context, chat *genbusv1.Chat) (*genbusv1.ChatCompletion, error) {
	raw, err := n.Client.Reply(ctx, chat)
	if err != nil {
		return nil, err
	}
	return body.ParseCompletion(raw)
}

// grpcJobs calls genbus over gRPC. Its watches resume after an interruption.
type grpcJobs struct {
	videos genbusv1grpc.VideoServiceClient
	chats  genbusv1grpc.ChatServiceClient
}

// SubmitVideo creates a task. If there is no request ID, it sets a random one so that the request
// can be repeated.
func (g grpcJobs) SubmitVideo(ctx context.Context, r *genbusv1.VideoRequest) (*genbusv1.VideoTask, error) {
	r.RequestId = cmp.Or(r.GetRequestId(), rand.Text())
	var to peer.Peer
	answer, err := g.videos.CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: r}, grpc.Peer(&to))
	return answer.GetTask(), created(err, to, r.GetRequestId())
}

func (g grpcJobs) SubmitChat(ctx context.Context, r *genbusv1.ChatRequest) (*genbusv1.Chat, error) {
	r.RequestId = cmp.Or(r.GetRequestId(), rand.Text())
	var to peer.Peer
	answer, err := g.chats.SubmitChatCompletion(ctx, &genbusv1.SubmitChatCompletionRequest{Request: r}, grpc.Peer(&to))
	return answer.GetChat(), created(err, to, r.GetRequestId())
}

// created converts the error of a create call. If the request may have been accepted, the error
// names the request ID with which to repeat it.
func created(err error, to peer.Peer, id string) error {
	err = answered(err)
	var e callError
	unknown := errors.As(err, &e) && (e.code == string(errcode.AcceptanceUnknown) || to.Addr != nil && e.lost())
	if !unknown {
		return err
	}
	return &client.Error{
		Code: client.ErrAcceptanceUnknown, RequestID: id,
		Message: fmt.Sprintf("the request may have been accepted: send it again with --request-id %s (makes no second job): %v", id, e),
	}
}

func (g grpcJobs) Reply(ctx context.Context, chat *genbusv1.Chat) (*genbusv1.ChatCompletion, error) {
	if chat.GetReplyRef() == nil {
		return body.ParseCompletion(chat.GetReplyJson())
	}
	answer, err := g.chats.GetChatCompletion(ctx, &genbusv1.GetChatCompletionRequest{Id: chat.GetId()})
	return answer.GetCompletion(), answered(err)
}

func (g grpcJobs) FollowVideo(ctx context.Context, id string, after uint64) iter.Seq2[*genbusv1.VideoTaskEvent, error] {
	open := func() (func() (*genbusv1.VideoTaskEvent, error), error) {
		stream, err := g.videos.WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: id, AfterVersion: after})
		return func() (*genbusv1.VideoTaskEvent, error) {
			m, err := stream.Recv()
			return m.GetEvent(), err
		}, err
	}
	return resumed(ctx, open, func(e *genbusv1.VideoTaskEvent) { after = e.GetVersion() })
}

func (g grpcJobs) FollowChat(ctx context.Context, id string) iter.Seq2[client.ChatItem, error] {
	var token, next string
	open := func() (func() (client.ChatItem, error), error) {
		stream, err := g.chats.WatchChatCompletion(ctx, &genbusv1.WatchChatCompletionRequest{Id: id, ResumeToken: token})
		return func() (client.ChatItem, error) {
			m, err := stream.Recv()
			next = m.GetResumeToken()
			return client.ChatItem{Event: m.GetEvent(), Chunk: m.GetChunk(), Gap: m.GetGap()}, err
		}, err
	}
	return resumed(ctx, open, func(client.ChatItem) { token = next })
}
