package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service/servicetest"
)

func TestJobsAreListedAndCancelled(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Options{Sandbox: sandbox.Options{VideoDuration: time.Hour}})
	c, ctx := connect(t, s.NATSURL(), client.Options{}), within(t, brokertest.Patience)
	var made []string
	for i := range 3 {
		task, err := c.SubmitVideo(ctx, video("sandbox-video", "list-"+strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, task.GetId())
	}
	talk, err := c.SubmitChat(ctx, chat("sandbox-chat:delay_ms=600000"))
	if err != nil {
		t.Fatal(err)
	}

	cancelled, err := c.CancelVideo(ctx, made[1])
	if err != nil || cancelled.GetStatus() != genbusv1.JobStatus_JOB_STATUS_CANCELLED {
		t.Errorf("%v, %v", cancelled, err)
	}
	if again, err := c.CancelVideo(ctx, made[1]); err != nil || again.GetVersion() != cancelled.GetVersion() {
		t.Errorf("cancelled again: %v, %v", again, err)
	}
	if _, err := c.CancelVideo(ctx, talk.GetId()); !errors.Is(err, client.ErrTaskNotFound) {
		t.Errorf("a chat as a video: %v", err)
	}
	if ended, err := c.CancelChat(ctx, talk.GetId()); err != nil || ended.GetStatus() != genbusv1.JobStatus_JOB_STATUS_CANCELLED {
		t.Errorf("%v, %v", ended, err)
	}

	repeat := video("sandbox-video", "list-3")
	repeat.RetryOf = made[1]
	again, err := c.SubmitVideo(ctx, repeat)
	if err != nil {
		t.Fatal(err)
	}
	made = append(made, again.GetId())

	for name, row := range map[string]struct {
		request *genbusv1.ListVideoTasksRequest
		want    []string
	}{
		"all":         {nil, made},
		"three pages": {&genbusv1.ListVideoTasksRequest{PageSize: 1}, made},
		"cancelled":   {&genbusv1.ListVideoTasksRequest{Status: genbusv1.JobStatus_JOB_STATUS_CANCELLED}, made[1:2]},
	} {
		sent := proto.CloneOf(row.request)
		var got []string
		for task, err := range c.ListVideos(ctx, row.request) {
			if err != nil {
				t.Fatal(name, err)
			}
			got = append(got, task.GetId())
		}
		slices.Reverse(got) // newest first
		if !slices.Equal(got, row.want) || !proto.Equal(sent, row.request) {
			t.Errorf("%s: got %v, want %v; the request is %v", name, got, row.want, row.request)
		}
	}
	videos := c.ListVideos(ctx, &genbusv1.ListVideoTasksRequest{PageSize: 2})
	for limit, want := range map[int]int{1: 1, 10: len(made)} { // each loop starts with the first page
		n := 0
		for _, err := range videos {
			if n++; err != nil {
				t.Fatal(err)
			}
			if n == limit {
				break
			}
		}
		if n != want {
			t.Errorf("%d videos, want %d", n, want)
		}
	}
	for talks, err := range c.ListChats(ctx, nil) {
		if err != nil || talks.GetId() != talk.GetId() {
			t.Errorf("%v, %v", talks, err)
		}
	}
	for _, err := range c.ListVideos(ctx, &genbusv1.ListVideoTasksRequest{PageToken: "x"}) {
		if !errors.Is(err, client.ErrInvalidPageToken) {
			t.Errorf("an invalid token: %v", err)
		}
	}
	if ids, err := c.ReplacedBy(ctx, made[1]); err != nil || !slices.Equal(ids, made[3:]) {
		t.Errorf("%s is replaced by %v, %v", made[1], ids, err)
	}
	if ids, err := c.ReplacedBy(ctx, talk.GetId()); err != nil || ids != nil {
		t.Errorf("a chat is replaced by %v, %v", ids, err)
	}
	if _, err := c.ReplacedBy(ctx, "video_1"); !errors.Is(err, client.ErrTaskNotFound) {
		t.Errorf("a malformed ID: %v", err)
	}
	if models, err := c.Models(ctx, &genbusv1.ListModelsRequest{Kind: "video"}); err != nil || !slices.ContainsFunc(models, func(m *genbusv1.Model) bool { return m.GetId() == "sandbox-video" }) {
		t.Errorf("%v, %v", models, err)
	}
}

func TestRepeatedRequestsWait(t *testing.T) {
	t.Parallel()
	server := startNATS(t, t.TempDir(), -1)
	t.Cleanup(func() { stopNATS(server) })
	c := connect(t, server.ClientURL(), client.Options{Wait: 300 * time.Millisecond})
	ctx := within(t, brokertest.Patience)
	for name, err := range map[string]error{
		"models": second(c.Models(ctx, nil)), "cancel": second(c.CancelVideo(ctx, jobID(1))),
		"content": second(c.Content(ctx, &genbusv1.DownloadVideoRequest{Id: jobID(1)}, &bytes.Buffer{})),
	} {
		if !errors.Is(err, client.ErrBrokerUnavailable) || !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s without genbus: %v", name, err)
		}
	}
}

// TestContentFromTheFirstMissingByte checks that a download continues after the last byte that was
// written, whatever part of an answer is lost.
func TestContentFromTheFirstMissingByte(t *testing.T) {
	t.Parallel()
	server := startNATS(t, t.TempDir(), -1)
	t.Cleanup(func() { stopNATS(server) })
	genbus := connection(t, server.ClientURL())
	const file = "0123456789"
	piece := func(from, to int, header nats.Header) *nats.Msg {
		m := &nats.Msg{Data: []byte(file[from:to]), Header: nats.Header{"content-range": {fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(file))}, "content-type": {"video/mp4"}}}
		maps.Copy(m.Header, header)
		return m
	}
	end := func(how string) *nats.Msg { return &nats.Msg{Header: nats.Header{"genbus-end": {how}}} }
	for name, row := range map[string]struct {
		request *genbusv1.DownloadVideoRequest
		answers [][]*nats.Msg
		want    string
		asked   []int64 // offset of each request
		err     error
	}{
		"in one answer": {
			&genbusv1.DownloadVideoRequest{}, [][]*nats.Msg{{piece(0, 4, nil), piece(4, 10, nil), end("complete")}}, file, []int64{0}, nil,
		},
		"in two answers": {
			&genbusv1.DownloadVideoRequest{}, [][]*nats.Msg{{piece(0, 4, nil), end("more")}, {piece(4, 10, nil), end("complete")}}, file, []int64{0, 4}, nil,
		},
		"with a lost piece": {
			&genbusv1.DownloadVideoRequest{}, [][]*nats.Msg{{piece(0, 4, nil), piece(6, 10, nil), end("complete")}, {piece(4, 10, nil), end("complete")}}, file, []int64{0, 4}, nil,
		},
		"a part": {
			&genbusv1.DownloadVideoRequest{Offset: 2, Length: 5}, [][]*nats.Msg{{piece(2, 4, nil), end("more")}, {piece(4, 7, nil), end("complete")}}, "23456", []int64{2, 4}, nil,
		},
		"a failing upstream": {
			&genbusv1.DownloadVideoRequest{}, [][]*nats.Msg{{piece(0, 4, nil), {Header: nats.Header{"genbus-error-code": {"content_unavailable"}}}}, {piece(4, 10, nil), end("complete")}}, file, []int64{0, 4}, nil,
		},
		"a busy replica": {
			&genbusv1.DownloadVideoRequest{}, [][]*nats.Msg{{{Header: nats.Header{"genbus-error-code": {"queue_full"}}}}, {piece(0, 10, nil), end("complete")}}, file, []int64{0, 0}, nil,
		},
		"an upstream that sends less": {
			&genbusv1.DownloadVideoRequest{}, [][]*nats.Msg{{piece(0, 4, nil), end("complete")}, {piece(4, 10, nil)}}, file, []int64{0, 4}, nil,
		},
		"an expired file": {
			&genbusv1.DownloadVideoRequest{}, [][]*nats.Msg{{piece(0, 4, nil), {Header: nats.Header{"genbus-error-code": {"content_expired"}}}}}, "0123", []int64{0}, client.ErrContentExpired,
		},
		"another file": {
			&genbusv1.DownloadVideoRequest{}, [][]*nats.Msg{{piece(0, 4, nats.Header{"etag": {"1"}}), end("more")}, {piece(4, 10, nats.Header{"etag": {"2"}}), end("complete")}}, "0123", []int64{0, 4}, client.ErrContentUnavailable,
		},
	} {
		tenant := strings.ReplaceAll(name, " ", "-")
		answers, offsets := row.answers, make(chan int64, 10)
		if _, err := genbus.Subscribe("genbus.content."+tenant, func(m *nats.Msg) {
			var r genbusv1.DownloadVideoRequest
			if err := proto.Unmarshal(m.Data, &r); err != nil || len(answers) == 0 {
				t.Errorf("%s: unexpected request %v, %v", name, &r, err)
				return
			}
			offsets <- r.GetOffset()
			for _, reply := range answers[0] {
				if err := m.RespondMsg(reply); err != nil {
					t.Error(err)
				}
			}
			answers = answers[1:]
		}); err != nil || genbus.Flush() != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		c := connect(t, server.ClientURL(), client.Options{Tenant: tenant})
		mediaType, err := c.Content(within(t, brokertest.Patience), row.request, &got)
		if got.String() != row.want || mediaType != "video/mp4" || !errors.Is(err, row.err) {
			t.Errorf("%s: %q, %s, %v", name, &got, mediaType, err)
		}
		for _, want := range row.asked {
			if offset := <-offsets; offset != want {
				t.Errorf("%s: asked from byte %d, want %d", name, offset, want)
			}
		}
	}
}

// TestAWriterThatFails checks that an error of the writer ends a download, even at the last byte.
func TestAWriterThatFails(t *testing.T) {
	t.Parallel()
	server := startNATS(t, t.TempDir(), -1)
	t.Cleanup(func() { stopNATS(server) })
	genbus := connection(t, server.ClientURL())
	if _, err := genbus.Subscribe("genbus.content.default", func(m *nats.Msg) {
		if err := m.RespondMsg(&nats.Msg{Data: []byte("x"), Header: nats.Header{"content-range": {"bytes 0-0/1"}}}); err != nil {
			t.Error(err)
		}
	}); err != nil || genbus.Flush() != nil {
		t.Fatal(err)
	}
	c := connect(t, server.ClientURL(), client.Options{})
	full := errors.New("the disk is full")
	if _, err := c.Content(within(t, brokertest.Patience), &genbusv1.DownloadVideoRequest{}, failing{full}); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write(p []byte) (int, error) { return len(p), f.err }

func second[T any](_ T, err error) error { return err }
