package load

import (
	"context"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/faultinject/check"
)

// watchVideo follows the job over gRPC until the stream ends. io.EOF is a regular end.
func (f *follower) watchVideo(ctx context.Context, at int, a *answer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := f.videos(at).WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: f.job, AfterVersion: f.version})
	if err == nil {
		_, err = s.Header()
	}
	if err == nil {
		a.begins()
	}
	for err == nil {
		var r *genbusv1.WatchVideoTaskResponse
		if r, err = s.Recv(); err == nil {
			e := r.GetEvent()
			err = f.event(e.GetId(), e.GetVersion(), task.StatusWord(e.GetTask().GetStatus()))
		}
	}
	return err
}

// watchChat is like watchVideo but for chats, which resume by token.
func (f *follower) watchChat(ctx context.Context, at int, a *answer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := f.chats(at).WatchChatCompletion(ctx, &genbusv1.WatchChatCompletionRequest{Id: f.job, ResumeToken: f.token})
	if err == nil {
		_, err = s.Header()
	}
	if err == nil {
		a.begins()
	}
	for err == nil {
		var r *genbusv1.WatchChatCompletionResponse
		if r, err = s.Recv(); err == nil {
			f.token = r.GetResumeToken()
			err = f.watched(r)
		}
	}
	return err
}

func (f *follower) watched(r *genbusv1.WatchChatCompletionResponse) error {
	switch item := r.GetItem().(type) {
	case *genbusv1.WatchChatCompletionResponse_Event:
		return f.event(item.Event.GetId(), item.Event.GetVersion(), task.StatusWord(item.Event.GetChat().GetStatus()))
	case *genbusv1.WatchChatCompletionResponse_Chunk:
		return f.item(check.Item{Attempt: item.Chunk.GetAttempt(), Index: item.Chunk.GetIndex(), Blocks: check.Blocks(item.Chunk)})
	default:
		gap := r.GetGap()
		return f.item(check.Item{Attempt: gap.GetAttempt(), Index: gap.GetIndex(), Gap: gap.GetReason() == "gap", Expired: gap.GetReason() != "gap"})
	}
}
