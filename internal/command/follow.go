package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/plural"
	"github.com/genbus/genbus/internal/task"
)

// follower displays a job, as a bar on a terminal and otherwise as one line per event.
type follower struct {
	out  io.Writer
	json bool
	bar  bool
	// quiet is called with the ID of a chat if no text arrives within quietAfter.
	quiet func(id string)
}

// quietAfter is how long to wait for the first text of a chat before telling the user where to look
// for problems. No event reports an unreachable upstream.
const quietAfter = 10 * time.Second

func (f *follower) id(id string) error {
	_, err := fmt.Fprintln(f.out, id)
	return err
}

// errJobFailed reports a job without a result. The process then exits with code 1.
var errJobFailed = errors.New("the job has no result")

// jobEnded returns the error of a failed or cancelled job.
func jobEnded(id string, e *genbusv1.TaskError) error {
	if e == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s: %s", id, errJobFailed, e.GetCode(), clean(e.GetMessage()))
}

// video displays a task's events until it ends.
func (f *follower) video(events iter.Seq2[*genbusv1.VideoTaskEvent, error], id string) error {
	var last *genbusv1.VideoTask
	for e, err := range events {
		if err != nil {
			f.newLine()
			return err
		}
		last = e.GetTask()
		if err := f.step(e, last); err != nil {
			return err
		}
	}
	f.newLine()
	if !f.json {
		for _, place := range places(last) {
			if _, err := fmt.Fprintln(f.out, place); err != nil {
				return err
			}
		}
	}
	return jobEnded(id, last.GetError())
}

// places returns the URLs of a task's results, or genbus's path if the upstream gave no URL.
func places(t *genbusv1.VideoTask) []string {
	var all []string
	for _, v := range t.GetVideos() {
		if v.GetUrl() != "" {
			all = append(all, v.GetUrl())
		}
	}
	if len(all) == 0 && t.GetStatus() == genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		all = append(all, "/v1/videos/"+t.GetId()+"/content")
	}
	return all
}

func (f *follower) step(e proto.Message, t *genbusv1.VideoTask) error {
	status := task.StatusWord(t.GetStatus())
	var err error
	switch {
	case f.json:
		err = f.line(e)
	case f.bar:
		_, err = fmt.Fprintf(f.out, "\r%s  %s %3d %%  %-11s", t.GetId(), gauge(t.GetProgress()), t.GetProgress(), status)
	default:
		_, err = fmt.Fprintf(f.out, "%s  %s  v%-3d %-11s %3d %%%s\n", t.GetUpdatedAt().AsTime().Format(time.RFC3339), t.GetId(), t.GetVersion(), status, t.GetProgress(), finer(t.GetExecution(), t.GetStatus(), t.GetUpstreamStatus()))
	}
	return err
}

// finer returns a job's phase if the phase is more specific than the status. For a task that is
// queued again after a refusal, it returns the refusal's code.
func finer(e *genbusv1.Execution, status genbusv1.JobStatus, upstreamStatus string) string {
	phase := task.PhaseWord(e.GetPhase())
	switch {
	case phase == "queued" && upstreamStatus != "":
		return "  (waits after " + clean(upstreamStatus) + ")"
	case e != nil && phase != task.StatusWord(status):
		return "  (" + phase + ")"
	default:
		return ""
	}
}

// gaugeWidth is the width of a bar in characters.
const gaugeWidth = 30

func gauge(percent int32) string {
	full := int(min(max(percent, 0), 100)) * gaugeWidth / 100
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", gaugeWidth-full) + "]"
}

func (f *follower) newLine() {
	if f.bar && !f.json {
		fmt.Fprintln(f.out)
	}
}

// line prints an event as one line of JSON in the format of events.md.
func (f *follower) line(e proto.Message) error {
	data, err := body.EventJSON(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f.out, "%s\n", data)
	return err
}

// chat prints the text of a chat as it arrives. The text of a later attempt begins on a new line.
func (f *follower) chat(ctx context.Context, by jobs, id string) error {
	var last *genbusv1.Chat
	text := &growing{out: f.out}
	quiet := time.AfterFunc(quietAfter, func() { f.quiet(id) })
	defer quiet.Stop()
	for i, err := range by.FollowChat(ctx, id) {
		if err != nil {
			return errors.Join(err, text.end())
		}
		if i.Event != nil {
			last = i.Event.GetChat()
		}
		if i.Text() != "" {
			quiet.Stop()
		}
		if f.json {
			err = f.item(i)
		} else {
			err = text.add(i)
		}
		if err != nil {
			return err
		}
	}
	if f.json {
		return jobEnded(id, last.GetError())
	}
	return errors.Join(text.whole(ctx, by, last), jobEnded(id, last.GetError()))
}

func (f *follower) item(i client.ChatItem) error {
	switch {
	case i.Event != nil:
		return f.line(i.Event)
	case i.Chunk != nil:
		return f.line(i.Chunk)
	default:
		return nil // the terminal event contains the missing part
	}
}

// growing prints the text of a chat and remembers whether any of it is missing.
type growing struct {
	out     io.Writer
	attempt uint32
	shown   bool
	gap     bool
}

func (g *growing) add(i client.ChatItem) error {
	if a := max(i.Chunk.GetAttempt(), i.Event.GetChat().GetAttempt()); a > g.attempt {
		again := g.shown
		g.attempt, g.shown, g.gap = a, false, false
		if again {
			if _, err := fmt.Fprintf(g.out, "\n(attempt %d)\n", a); err != nil {
				return err
			}
		}
	}
	g.gap = g.gap || i.Gap != nil || i.Chunk.GetBlocksRef() != nil
	text := i.Text()
	if text == "" || g.gap {
		return nil
	}
	g.shown = true
	_, err := io.WriteString(g.out, text)
	return err
}

func (g *growing) end() error {
	if !g.shown {
		return nil
	}
	_, err := fmt.Fprintln(g.out)
	return err
}

// whole prints the complete reply if parts of it have not been printed.
func (g *growing) whole(ctx context.Context, by jobs, chat *genbusv1.Chat) error {
	if err := g.end(); err != nil || g.shown && !g.gap || chat.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return err
	}
	reply, err := by.Reply(ctx, chat)
	if err != nil {
		return fmt.Errorf("%s completed, but its reply cannot be read: %w", chat.GetId(), err)
	}
	_, err = fmt.Fprintln(g.out, replyText(reply))
	return err
}

// replyText returns the text of a reply's first choice.
func replyText(reply *genbusv1.ChatCompletion) string {
	if len(reply.GetChoices()) == 0 {
		return ""
	}
	return body.MessageText(reply.GetChoices()[0].GetMessage())
}

// EventDetail returns the most useful detail of an event, preceded by two spaces. The detail is an
// error, a result, the progress or the phase.
func EventDetail(e task.Event) string {
	if err := e.Job.GetError(); err != nil {
		return "  " + err.GetCode() + ": " + err.GetMessage()
	}
	upstreamStatus := ""
	switch j := e.Job.(type) {
	case *genbusv1.VideoTask:
		upstreamStatus = j.GetUpstreamStatus()
		switch at := places(j); {
		case len(at) > 0:
			return "  " + at[0]
		case j.GetProgress() > 0:
			return fmt.Sprintf("  %d %%", j.GetProgress())
		}
	case *genbusv1.Chat:
		if e.Terminal() {
			if j.GetUsage() == nil { // the upstream did not report it
				return "  " + plural.Count(j.GetChunkCount(), "chunk")
			}
			return "  " + plural.Count(j.GetChunkCount(), "chunk") + ", " + plural.Count(j.GetUsage().GetTotalTokens(), "token")
		}
	}
	return finer(e.Job.GetExecution(), e.Job.GetStatus(), upstreamStatus)
}
