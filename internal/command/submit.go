package command

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/telemetry"
)

// Submit submits a job and follows it. It uses NATS if a NATS address is given, and gRPC otherwise.
type Submit struct {
	connection     `embed:""`
	natsConnection `embed:""`
	Tenant         string            `help:"Tenant of the request over NATS (default: default); over gRPC the key determines the tenant."`
	RequestID      string            `help:"Idempotency key: sending the same one again returns the same job." name:"request-id"`
	Label          map[string]string `help:"Label of the job, name=value; may be repeated."`
	Detach         bool              `help:"Print the job's ID and do not follow the job."`
	JSON           bool              `help:"Print each event as one line of JSON." name:"json"`

	Video submitVideo `cmd:"" help:"Submit a video."`
	Chat  submitChat  `cmd:"" help:"Submit a chat completion and print its text as it arrives."`
}

func (c *Submit) with(ctx context.Context, out io.Writer, f func(context.Context, jobs, *follower) error) error {
	show := &follower{out: out, json: c.JSON, bar: telemetry.IsTerminal(out), quiet: printQuiet}
	if c.NATS != "" && c.given() {
		return WrongUse("NATS (--nats, GENBUS_NATS_URL) and gRPC (--server, --key-file, --tls) are both set: choose one")
	}
	if c.NATS == "" && c.Tenant != "" {
		return WrongUse("--tenant works only with NATS (--nats, GENBUS_NATS_URL): over gRPC the key determines the tenant")
	}
	if c.NATS != "" {
		nc, err := c.natsConnection.dial(os.Getenv("NATS_PASSWORD"))
		if err != nil {
			return err
		}
		defer nc.Close()
		by, err := client.New(nc, client.Options{Tenant: c.Tenant, Prefix: c.Prefix, Notice: printNotice})
		if err != nil {
			return WrongUse("%w", err)
		}
		return f(ctx, natsJobs{by}, show)
	}
	key, err := c.key(EnvAPIKey)
	if err != nil {
		return err
	}
	return c.connection.with(ctx, key, func(ctx context.Context, conn *grpc.ClientConn) error {
		return f(ctx, grpcJobs{videos: genbusv1grpc.NewVideoServiceClient(conn), chats: genbusv1grpc.NewChatServiceClient(conn)}, show)
	})
}

// EnvAPIKey is the environment variable for a tenant's key.
const EnvAPIKey = "GENBUS_API_KEY"

type submitVideo struct {
	Prompt   string  `arg:"" optional:"" help:"Prompt: a description of the video."`
	Model    string  `help:"Model; required without --body." short:"m"`
	Image    string  `help:"First image: a file or a URL."`
	Duration float64 `help:"Length in seconds."`
	Size     string  `help:"Width and height in pixels, such as 1280x720."`
	Body     string  `help:"File with the JSON body in the model's protocol; - for standard input." type:"path"`
}

func (v submitVideo) Run(ctx context.Context, c *Submit, out io.Writer) error {
	r, err := v.request()
	if err != nil {
		return err
	}
	r.RequestId, r.Labels = c.RequestID, c.Label
	return c.with(ctx, out, func(ctx context.Context, by jobs, show *follower) error {
		task, err := by.SubmitVideo(ctx, r)
		if err != nil {
			return err
		}
		if c.Detach {
			return show.id(task.GetId())
		}
		return interrupted(ctx, task.GetId(), show.video(by.FollowVideo(ctx, task.GetId(), 0), task.GetId()))
	})
}

func (v submitVideo) request() (*genbusv1.VideoRequest, error) {
	if v.Body != "" {
		raw, err := readBody("--body", v.Body)
		return &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_RawJson{RawJson: raw}}, err
	}
	if v.Model == "" || v.Prompt == "" && v.Image == "" {
		return nil, WrongUse("a video needs --model and a prompt or --image, or --body")
	}
	video := &genbusv1.VideoGeneration{Model: v.Model, Prompt: v.Prompt}
	if v.Duration < 0 {
		return nil, WrongUse("--duration: %v must be more than 0 seconds", v.Duration)
	}
	if v.Duration > 0 {
		video.Duration = &v.Duration
	}
	if v.Size != "" {
		var width, height int32
		if n, err := fmt.Sscanf(v.Size, "%dx%d", &width, &height); err != nil || n != 2 {
			return nil, WrongUse("--size: %q is invalid; write it as 1280x720", v.Size)
		}
		video.Width, video.Height = &width, &height
	}
	if v.Image != "" {
		image, err := picture(v.Image)
		if err != nil {
			return nil, err
		}
		video.Image = &image
	}
	return &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: video}}, nil
}

// picture returns a URL unchanged, or the content of a file in Base64.
func picture(source string) (string, error) {
	if strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "data:") {
		return source, nil
	}
	data, err := os.ReadFile(source)
	if err != nil {
		return "", WrongUse("--image: %w", err)
	}
	return base64.StdEncoding.EncodeToString(data), nil
}

// readBody reads JSON from a flag's file or from standard input. It rejects invalid JSON itself,
// because the error from genbus would name a field that the command line does not have.
func readBody(flag, path string) (data []byte, err error) {
	if path == "-" {
		path = "the standard input"
		data, err = io.ReadAll(io.LimitReader(os.Stdin, maxBody+1))
	} else {
		data, err = os.ReadFile(path)
	}
	if err == nil && len(data) > maxBody {
		err = fmt.Errorf("more than %d bytes", maxBody)
	}
	if err != nil {
		return nil, WrongUse("%s: %w", flag, err)
	}
	var wrong *body.FieldError
	if errors.As(body.Parse(data).Err(), &wrong) {
		return nil, WrongUse("%s: %s %s", flag, path, wrong.Description)
	}
	return data, nil
}

// maxBody is the largest body that genbus accepts, in bytes.
const maxBody = 32 << 20

type submitChat struct {
	Prompt string `arg:"" optional:"" help:"Prompt: the user message."`
	Model  string `help:"Model; required without --body." short:"m"`
	System string `help:"System instructions before the prompt."`
	Body   string `help:"File with the JSON body of /v1/chat/completions; - for standard input." type:"path"`
}

func (s submitChat) Run(ctx context.Context, c *Submit, out io.Writer) error {
	r, err := s.request()
	if err != nil {
		return err
	}
	r.RequestId, r.Labels = c.RequestID, c.Label
	return c.with(ctx, out, func(ctx context.Context, by jobs, show *follower) error {
		chat, err := by.SubmitChat(ctx, r)
		if err != nil {
			return err
		}
		if c.Detach {
			return show.id(chat.GetId())
		}
		return interrupted(ctx, chat.GetId(), show.chat(ctx, by, chat.GetId()))
	})
}

func (s submitChat) request() (*genbusv1.ChatRequest, error) {
	if s.Body != "" {
		raw, err := readBody("--body", s.Body)
		return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: raw}}, err
	}
	if s.Model == "" || s.Prompt == "" {
		return nil, WrongUse("a chat needs --model and a prompt, or --body")
	}
	chat := &genbusv1.ChatCompletionBody{Model: s.Model, Stream: proto.Bool(true)}
	if s.System != "" {
		chat.Messages = append(chat.Messages, chatMessage("system", s.System))
	}
	chat.Messages = append(chat.Messages, chatMessage("user", s.Prompt))
	return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: chat}}, nil
}

func chatMessage(role, text string) *genbusv1.ChatMessage {
	return &genbusv1.ChatMessage{Role: role, Content: &genbusv1.ChatMessage_Text{Text: text}}
}

// interrupted returns err. If the user has interrupted the command, it instead returns an error
// saying that the job continues.
func interrupted(ctx context.Context, id string, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("stopped following; the job continues: genbus tasks get %s", id)
	}
	return err
}
