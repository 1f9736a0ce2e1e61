package command

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
)

// TestAReplyInPartsIsShown checks that a reply with content parts is printed.
func TestAReplyInPartsIsShown(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := printer{out: &out}.chat(&genbusv1.GetChatCompletionResponse{
		Chat: &genbusv1.Chat{Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED}, Completion: inParts(t),
	})
	if err != nil || !strings.Contains(out.String(), "hello") {
		t.Errorf("%v: %s", err, &out)
	}
}

func inParts(t *testing.T) *genbusv1.ChatCompletion {
	t.Helper()
	reply, err := body.ParseCompletion([]byte(`{"choices":[{"message":{"content":[{"type":"text","text":"hel"},{"type":"text","text":"lo"}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// lossy is a genbus that has lost blocks of a chat.
type lossy struct {
	jobs
	lost  client.ChatItem
	reply *genbusv1.ChatCompletion // nil if it cannot be read
}

func (l lossy) FollowChat(context.Context, string) iter.Seq2[client.ChatItem, error] {
	end := &genbusv1.Chat{Id: "chat_x", Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED}
	return func(yield func(client.ChatItem, error) bool) {
		_ = yield(client.ChatItem{Chunk: &genbusv1.ChatChunk{Blocks: [][]byte{[]byte(`{"choices":[{"delta":{"content":"he"}}]}`)}}}, nil) &&
			yield(l.lost, nil) && yield(client.ChatItem{Event: &genbusv1.ChatEvent{Chat: end}}, nil)
	}
}

func (l lossy) Reply(context.Context, *genbusv1.Chat) (*genbusv1.ChatCompletion, error) {
	if l.reply == nil {
		return nil, errors.New("no right to read it")
	}
	return l.reply, nil
}

// TestAMissingReplyIsReported checks that lost or unreadable blocks make the command print the
// whole reply, or an error.
func TestAMissingReplyIsReported(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]client.ChatItem{
		"a gap":     {Gap: &genbusv1.ChatGap{Reason: "gap"}},
		"elsewhere": {Chunk: &genbusv1.ChatChunk{BlocksRef: &genbusv1.BlobRef{Name: "b"}}},
	} {
		var out bytes.Buffer
		f := &follower{out: &out}
		if err := f.chat(t.Context(), lossy{lost: lost, reply: inParts(t)}, "chat_x"); err != nil || out.String() != "he\nhello\n" {
			t.Errorf("%s: %v: %q", name, err, &out)
		}
		if err := f.chat(t.Context(), lossy{lost: lost}, "chat_x"); err == nil || !strings.Contains(err.Error(), "chat_x") {
			t.Errorf("%s, and no reply: %v", name, err)
		}
	}
}

// slow is a genbus whose chat brings its text after a delay.
type slow struct {
	jobs
	text time.Duration
}

func (s slow) FollowChat(context.Context, string) iter.Seq2[client.ChatItem, error] {
	chat := func(status genbusv1.JobStatus) client.ChatItem {
		return client.ChatItem{Event: &genbusv1.ChatEvent{Chat: &genbusv1.Chat{Status: status}}}
	}
	return func(yield func(client.ChatItem, error) bool) {
		if !yield(chat(genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS), nil) {
			return
		}
		time.Sleep(s.text) //nolint:forbidigo // synctest
		if !yield(client.ChatItem{Chunk: &genbusv1.ChatChunk{Blocks: [][]byte{[]byte(`{"choices":[{"delta":{"content":"hello"}}]}`)}}}, nil) {
			return
		}
		time.Sleep(time.Hour) //nolint:forbidigo // synctest
		yield(chat(genbusv1.JobStatus_JOB_STATUS_COMPLETED), nil)
	}
}

// TestAQuietChatIsReported checks that a chat without text is reported once.
func TestAQuietChatIsReported(t *testing.T) {
	t.Parallel()
	for text, want := range map[time.Duration]int32{quietAfter - time.Second: 0, quietAfter + time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			var said atomic.Int32
			f := &follower{out: &out, quiet: func(string) { said.Add(1) }}
			if err := f.chat(t.Context(), slow{text: text}, "chat_x"); err != nil || out.String() != "hello\n" || said.Load() != want {
				t.Errorf("text after %s: %v, %q, said %d times", text, err, &out, said.Load())
			}
		})
	}
}
