package command

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/subject"
)

// paged serves a tenant's tasks in pages.
type paged struct {
	genbusv1grpc.UnimplementedVideoServiceServer
	tasks int
}

func (p paged) ListVideoTasks(_ context.Context, m *genbusv1.ListVideoTasksRequest) (*genbusv1.ListVideoTasksResponse, error) {
	from, _ := strconv.Atoi(m.GetPageToken()) // an empty token is 0
	to := min(from+int(m.GetPageSize()), p.tasks)
	page := &genbusv1.ListVideoTasksResponse{}
	for n := from; n < to; n++ {
		page.Tasks = append(page.GetTasks(), &genbusv1.VideoTask{Id: fmt.Sprintf("video_%d", n)})
	}
	if to < p.tasks {
		page.NextPageToken = strconv.Itoa(to)
	}
	return page, nil
}

type pagedChats struct {
	genbusv1grpc.UnimplementedChatServiceServer
	chats int
}

func (p pagedChats) ListChatCompletions(ctx context.Context, m *genbusv1.ListChatCompletionsRequest) (*genbusv1.ListChatCompletionsResponse, error) {
	tasks, err := (paged{tasks: p.chats}).ListVideoTasks(ctx, &genbusv1.ListVideoTasksRequest{PageSize: m.GetPageSize(), PageToken: m.GetPageToken()})
	page := &genbusv1.ListChatCompletionsResponse{NextPageToken: tasks.GetNextPageToken()}
	for _, t := range tasks.GetTasks() {
		page.Chats = append(page.GetChats(), &genbusv1.Chat{Id: strings.Replace(t.GetId(), "video", "chat", 1)})
	}
	return page, err
}

// TestTasksAreListedToTheLimit checks that --limit works across pages and that 0 means no limit.
func TestTasksAreListedToTheLimit(t *testing.T) {
	t.Parallel()
	const tasks = 2*maxPage + 30
	addr, _ := serveGRPC(t, func(server *grpc.Server) {
		genbusv1grpc.RegisterVideoServiceServer(server, paged{tasks: tasks})
		genbusv1grpc.RegisterChatServiceServer(server, pagedChats{chats: tasks})
	})
	for _, kind := range subject.Kinds {
		for limit, want := range map[int]int{1: 1, 20: 20, maxPage + 1: maxPage + 1, 0: tasks, tasks + 1: tasks} {
			var out bytes.Buffer
			c := &Tasks{tenantFlags: tenantFlags{connection: connection{Server: addr}, Timeout: time.Minute}}
			if err := (tasksList{Kind: string(kind), Limit: limit}).Run(t.Context(), c, &out); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(out.String(), string(kind)+"_"); n != want || strings.Contains(out.String(), "More exist") != (want < tasks) {
				t.Errorf("with --limit %d it lists %d of %s:\n%s", limit, n, kind, &out)
			}
		}
	}
}

// serveGRPC serves until the test ends or stop is called.
func serveGRPC(t *testing.T, register func(*grpc.Server)) (addr string, stop func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), server.Stop
}
