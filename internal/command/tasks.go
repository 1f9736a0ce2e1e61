package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// tenantFlags holds the flags of commands that call genbus over gRPC with a tenant's key.
type tenantFlags struct {
	connection `embed:""`
	JSON       bool          `help:"Print JSON." name:"json"`
	Timeout    time.Duration `help:"Time limit of the whole command." default:"1m"`
}

// Tasks shows and cancels a tenant's jobs over gRPC.
type Tasks struct {
	tenantFlags `embed:""`

	List   tasksList   `cmd:"" help:"List video tasks or chats, newest first."`
	Get    tasksGet    `cmd:"" help:"Show the current state of a video task or chat."`
	Cancel tasksCancel `cmd:"" help:"Cancel a video task or chat."`
}

// tenantCall is a connected client with its printer.
type tenantCall struct {
	videos genbusv1grpc.VideoServiceClient
	chats  genbusv1grpc.ChatServiceClient
	models genbusv1grpc.ModelServiceClient
	printer
}

// call connects and calls f within the time limit.
func (c *tenantFlags) call(ctx context.Context, out io.Writer, f func(context.Context, tenantCall) error) error {
	if err := CheckTimeout(c.Timeout); err != nil {
		return err
	}
	key, err := c.key(EnvAPIKey)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.with(ctx, key, func(ctx context.Context, conn *grpc.ClientConn) error {
		return answered(f(ctx, tenantCall{
			videos: genbusv1grpc.NewVideoServiceClient(conn), chats: genbusv1grpc.NewChatServiceClient(conn), models: genbusv1grpc.NewModelServiceClient(conn),
			printer: printer{out: out, json: c.JSON},
		}))
	})
}

type tasksList struct {
	Kind   string `help:"Kind of jobs to list: video or chat." enum:"video,chat" default:"video"`
	Status string `help:"Show only this status: queued, in_progress, completed, failed or cancelled." placeholder:"WORD"`
	Since  string `help:"Show only jobs created since a time (2026-01-31T12:00:00Z) or within a duration (2h)." placeholder:"WHEN"`
	Limit  int    `help:"Maximum jobs to list; 0 for all." default:"20"`
}

func (l tasksList) Run(ctx context.Context, c *Tasks, out io.Writer) error {
	status, err := statusOf(l.Status)
	if err != nil {
		return err
	}
	var after *timestamppb.Timestamp
	if l.Since != "" {
		at, err := since(l.Since, time.Now())
		if err != nil {
			return err
		}
		after = timestamppb.New(at)
	}
	return c.call(ctx, out, func(ctx context.Context, call tenantCall) error {
		if subject.Kind(l.Kind) == subject.Chat {
			request := &genbusv1.ListChatCompletionsRequest{Status: status, CreatedAfter: after}
			chats, next, err := pages(l.Limit, func(size int32, token string) ([]*genbusv1.Chat, string, error) {
				request.PageSize, request.PageToken = size, token
				page, err := call.chats.ListChatCompletions(ctx, request)
				return page.GetChats(), page.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return call.chatList(&genbusv1.ListChatCompletionsResponse{Chats: chats, NextPageToken: next})
		}
		request := &genbusv1.ListVideoTasksRequest{Status: status, CreatedAfter: after}
		tasks, next, err := pages(l.Limit, func(size int32, token string) ([]*genbusv1.VideoTask, string, error) {
			request.PageSize, request.PageToken = size, token
			page, err := call.videos.ListVideoTasks(ctx, request)
			return page.GetTasks(), page.GetNextPageToken(), err
		})
		if err != nil {
			return err
		}
		return call.taskList(&genbusv1.ListVideoTasksResponse{Tasks: tasks, NextPageToken: next})
	})
}

// pages joins the pages up to limit jobs, as in eachPage. next is the token of the page that follows.
func pages[J any](limit int, ask func(size int32, token string) (page []J, next string, err error)) (all []J, next string, err error) {
	err = eachPage(limit, func(size int32) (int, bool, error) {
		page, token, err := ask(size, next)
		if err != nil {
			return 0, false, err
		}
		all, next = append(all, page...), token
		return len(all), next != "", nil
	})
	return all, next, err
}

// statusOf parses a status word. It returns UNSPECIFIED, which means every status, for an empty
// word.
func statusOf(word string) (genbusv1.JobStatus, error) {
	if word == "" {
		return genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED, nil
	}
	for n := range genbusv1.JobStatus_name {
		if s := genbusv1.JobStatus(n); n != 0 && task.StatusWord(s) == word {
			return s, nil
		}
	}
	return 0, WrongUse("--status: %q is invalid; use queued, in_progress, completed, failed or cancelled", word)
}

func (p printer) taskList(m *genbusv1.ListVideoTasksResponse) error {
	var rows []string
	for _, t := range m.GetTasks() {
		rows = append(rows, cells(t.GetId(), moment(t.GetCreatedAt()), task.StatusWord(t.GetStatus()), fmt.Sprintf("%d %%", t.GetProgress()), t.GetModel(), t.GetError().GetCode()))
	}
	return p.jobList(m, m.GetNextPageToken(), "tasks", "ID\tCREATED\tSTATUS\tPROGRESS\tMODEL\tERROR", rows)
}

func (p printer) chatList(m *genbusv1.ListChatCompletionsResponse) error {
	var rows []string
	for _, c := range m.GetChats() {
		rows = append(rows, cells(c.GetId(), moment(c.GetCreatedAt()), task.StatusWord(c.GetStatus()), fmt.Sprint(c.GetAttempt()), c.GetModel(), c.GetError().GetCode()))
	}
	return p.jobList(m, m.GetNextPageToken(), "chats", "ID\tCREATED\tSTATUS\tATTEMPT\tMODEL\tERROR", rows)
}

func (p printer) jobList(m proto.Message, next, noun, header string, rows []string) error {
	if p.json {
		return p.asJSON(body.WithoutExecution(m))
	}
	if len(rows) == 0 {
		return p.message(m, "no %s", noun)
	}
	if err := p.table(header, rows); err != nil || next == "" {
		return err
	}
	return p.message(m, "More exist; see --limit.")
}

// jobArg names one of the caller's jobs.
type jobArg struct {
	ID string `arg:"" help:"Job ID: video_… or chat_…."`
}

func (j jobArg) kind() (subject.Kind, error) {
	kind, ok := subject.KindOf(j.ID)
	if !ok {
		return "", WrongUse("%q is not a job ID; IDs look like video_… or chat_…, with 26 letters and digits", j.ID)
	}
	return kind, nil
}

type tasksGet struct{ jobArg }

func (g tasksGet) Run(ctx context.Context, c *Tasks, out io.Writer) error {
	kind, err := g.kind()
	if err != nil {
		return err
	}
	return c.call(ctx, out, func(ctx context.Context, call tenantCall) error {
		if kind == subject.Chat {
			answer, err := call.chats.GetChatCompletion(ctx, &genbusv1.GetChatCompletionRequest{Id: g.ID})
			if err != nil {
				return err
			}
			return call.chat(answer)
		}
		answer, err := call.videos.GetVideoTask(ctx, &genbusv1.GetVideoTaskRequest{Id: g.ID})
		if err != nil {
			return err
		}
		return call.video(answer)
	})
}

func (p printer) video(answer *genbusv1.GetVideoTaskResponse) error {
	if p.json {
		return p.asJSON(body.WithoutExecution(answer))
	}
	t := answer.GetTask()
	rows := []string{
		cells("id", t.GetId()), cells("status", fmt.Sprintf("%s, %d %%%s", task.StatusWord(t.GetStatus()), t.GetProgress(), finer(t.GetExecution(), t.GetStatus(), t.GetUpstreamStatus()))), cells("model", t.GetModel()),
		cells("created", moment(t.GetCreatedAt())), cells("updated", moment(t.GetUpdatedAt())), cells("version", fmt.Sprint(t.GetVersion())),
	}
	if t.GetUpstreamStatus() != "" {
		rows = append(rows, cells("upstream", t.GetUpstreamStatus()))
	}
	for _, place := range places(t) {
		rows = append(rows, cells("video", place))
	}
	return p.properties(rows, t.GetError(), t.GetRetryOf(), answer.GetReplacedBy())
}

func (p printer) chat(answer *genbusv1.GetChatCompletionResponse) error {
	if p.json {
		return p.asJSON(body.WithoutExecution(answer))
	}
	c := answer.GetChat()
	rows := []string{
		cells("id", c.GetId()), cells("status", task.StatusWord(c.GetStatus())+finer(c.GetExecution(), c.GetStatus(), "")), cells("model", c.GetModel()), cells("attempt", fmt.Sprint(c.GetAttempt())),
		cells("created", moment(c.GetCreatedAt())), cells("updated", moment(c.GetUpdatedAt())), cells("version", fmt.Sprint(c.GetVersion())),
	}
	if reply := answer.GetCompletion(); reply != nil {
		rows = append(rows, cells("reply", replyText(reply)))
	}
	return p.properties(rows, c.GetError(), c.GetRetryOf(), answer.GetReplacedBy())
}

func (p printer) properties(rows []string, e *genbusv1.TaskError, retryOf string, replacedBy []string) error {
	if e != nil {
		rows = append(rows, cells("error", e.GetCode()+": "+e.GetMessage()))
	}
	if retryOf != "" {
		rows = append(rows, cells("retry of", retryOf))
	}
	if len(replacedBy) > 0 {
		rows = append(rows, cells("replaced by", strings.Join(replacedBy, ", ")))
	}
	return p.table(rows[0], rows[1:])
}

type tasksCancel struct{ jobArg }

// Run cancels a job. A job that has ended stays unchanged.
func (g tasksCancel) Run(ctx context.Context, c *Tasks, out io.Writer) error {
	kind, err := g.kind()
	if err != nil {
		return err
	}
	return c.call(ctx, out, func(ctx context.Context, call tenantCall) error {
		if kind == subject.Chat {
			answer, err := call.chats.CancelChatCompletion(ctx, &genbusv1.CancelChatCompletionRequest{Id: g.ID})
			if err != nil {
				return err
			}
			return call.message(body.WithoutExecution(answer), "%s is %s", g.ID, task.StatusWord(answer.GetChat().GetStatus()))
		}
		answer, err := call.videos.CancelVideoTask(ctx, &genbusv1.CancelVideoTaskRequest{Id: g.ID})
		if err != nil {
			return err
		}
		return call.message(body.WithoutExecution(answer), "%s is %s", g.ID, task.StatusWord(answer.GetTask().GetStatus()))
	})
}
