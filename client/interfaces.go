package client

import (
	"context"
	"iter"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Videos makes and reads videos. Programs that take it instead of a *Client can be tested with a
// fake.
type Videos interface {
	SubmitVideo(ctx context.Context, r *genbusv1.VideoRequest) (*genbusv1.VideoTask, error)
	FollowVideo(ctx context.Context, id string, after uint64) iter.Seq2[*genbusv1.VideoTaskEvent, error]
	WaitVideo(ctx context.Context, id string) (*genbusv1.VideoTask, error)
	GetVideo(ctx context.Context, id string) (*genbusv1.VideoTask, error)
	CancelVideo(ctx context.Context, id string) (*genbusv1.VideoTask, error)
}

// Chats makes and reads queued chats, like Videos.
type Chats interface {
	SubmitChat(ctx context.Context, r *genbusv1.ChatRequest) (*genbusv1.Chat, error)
	FollowChat(ctx context.Context, id string) iter.Seq2[ChatItem, error]
	WaitChat(ctx context.Context, id string) (*genbusv1.Chat, error)
	GetChat(ctx context.Context, id string) (*genbusv1.Chat, error)
	CancelChat(ctx context.Context, id string) (*genbusv1.Chat, error)
}

// Subscriber reads the feed of finished jobs, like Videos.
type Subscriber interface {
	Subscribe(ctx context.Context, f Feed, handle func(context.Context, Finished) error) error
}

var (
	_ Videos     = (*Client)(nil)
	_ Chats      = (*Client)(nil)
	_ Subscriber = (*Client)(nil)
)
