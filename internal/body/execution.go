package body

import (
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// WithoutExecution removes genbus's internal execution state, which no HTTP answer may contain,
// from a message. It modifies the message.
func WithoutExecution(m proto.Message) proto.Message {
	switch m := m.(type) {
	case interface{ GetTask() *genbusv1.VideoTask }:
		dropVideo(m.GetTask())
	case interface{ GetChat() *genbusv1.Chat }:
		dropChat(m.GetChat())
	case *genbusv1.ListVideoTasksResponse:
		for _, t := range m.GetTasks() {
			dropVideo(t)
		}
	case *genbusv1.ListChatCompletionsResponse:
		for _, c := range m.GetChats() {
			dropChat(c)
		}
	}
	return m
}

func dropVideo(t *genbusv1.VideoTask) {
	if t != nil {
		t.Execution = nil
	}
}

func dropChat(c *genbusv1.Chat) {
	if c != nil {
		c.Execution = nil
	}
}
