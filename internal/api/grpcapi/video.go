package grpcapi

import (
	"context"

	"github.com/genbus/genbus/internal/api/core"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// CreateVideoTask and the other methods are documented in video_service.proto.
func (s videoService) CreateVideoTask(ctx context.Context, m *genbusv1.CreateVideoTaskRequest) (*genbusv1.CreateVideoTaskResponse, error) {
	req, err := natsreq.FromVideo(m.GetRequest())
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, &req); err != nil {
		return nil, err
	}
	e, err := s.core.Jobs.Submit(ctx, req)
	if err != nil {
		return nil, err
	}
	setState(ctx, s.core.Jobs, e.Job)
	return &genbusv1.CreateVideoTaskResponse{Task: core.VideoOf(e)}, nil
}

func (s videoService) GetVideoTask(ctx context.Context, m *genbusv1.GetVideoTaskRequest) (*genbusv1.GetVideoTaskResponse, error) {
	e, err := s.core.Jobs.Get(ctx, callOf(ctx).name(subject.Video, m.GetId()))
	if err != nil {
		return nil, err
	}
	setState(ctx, s.core.Jobs, e.Job)
	return &genbusv1.GetVideoTaskResponse{Task: core.VideoOf(e), ReplacedBy: s.core.Jobs.ReplacedBy(ctx, e)}, nil
}

func (s videoService) ListVideoTasks(ctx context.Context, m *genbusv1.ListVideoTasksRequest) (*genbusv1.ListVideoTasksResponse, error) {
	page, err := listPage(ctx, s.core, subject.Video, m)
	if err != nil {
		return nil, err
	}
	return core.VideoPage(page), nil
}

// listPage reads the page that a request selects.
func listPage(ctx context.Context, c *core.Core, kind subject.Kind, m core.ListRequest) (jobindex.Page, error) {
	q, err := core.ListQuery(kind, callOf(ctx).tenant, m)
	if err != nil {
		return jobindex.Page{}, err
	}
	return c.Jobs.List(ctx, q)
}

func (s videoService) CancelVideoTask(ctx context.Context, m *genbusv1.CancelVideoTaskRequest) (*genbusv1.CancelVideoTaskResponse, error) {
	e, err := s.core.Jobs.Cancel(ctx, callOf(ctx).name(subject.Video, m.GetId()))
	if err != nil {
		return nil, err
	}
	setJobID(ctx, e.Job.GetId())
	return &genbusv1.CancelVideoTaskResponse{Task: core.VideoOf(e)}, nil
}

func (s videoService) DeleteVideoTask(ctx context.Context, m *genbusv1.DeleteVideoTaskRequest) (*genbusv1.DeleteVideoTaskResponse, error) {
	name := callOf(ctx).name(subject.Video, m.GetId())
	if err := s.core.Jobs.Erase(ctx, name); err != nil {
		return nil, err
	}
	setJobID(ctx, name.ID)
	return &genbusv1.DeleteVideoTaskResponse{}, nil
}

// WatchVideoTask sends a task's events. If the task never had the given version, WatchVideoTask
// sends the metadata genbus-notice: resume_expired, followed by the task's current state.
func (s videoService) WatchVideoTask(m *genbusv1.WatchVideoTaskRequest, out grpc.ServerStreamingServer[genbusv1.WatchVideoTaskResponse]) error {
	ctx := out.Context()
	watch, err := s.core.Watcher.Video(ctx, callOf(ctx).name(subject.Video, m.GetId()), m.GetAfterVersion())
	if err != nil {
		return err
	}
	setJobID(ctx, watch.Name.ID)
	if watch.Expired {
		_ = out.SetHeader(metadata.Pairs(mdNotice, string(errcode.ResumeExpired))) // fails only if the header has already been sent
	}
	if err := out.SendHeader(nil); err != nil || watch.Over {
		return err
	}
	return send(s.log, s.core.WriteTimeout, func(sent func(func() error) error) error {
		return s.core.Watcher.Count(subject.Video, callOf(ctx).ingress, func() error {
			for e, err := range watch.Events(ctx) {
				if err != nil {
					return err
				}
				event, _ := publisher.Message(e.Event).(*genbusv1.VideoTaskEvent)
				if err := sent(func() error { return out.Send(&genbusv1.WatchVideoTaskResponse{Event: event}) }); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
