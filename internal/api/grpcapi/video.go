package grpcapi

import (
	"context"

	"github.com/genbus/genbus/internal/api/core"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobtable"
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
	return &genbusv1.GetVideoTaskResponse{Task: core.VideoOf(e)}, nil
}

func (s videoService) ListVideoTasks(ctx context.Context, m *genbusv1.ListVideoTasksRequest) (*genbusv1.ListVideoTasksResponse, error) {
	if v := listViolations(m); len(v) > 0 {
		return nil, errcode.Invalid(v)
	}
	page, err := s.core.Jobs.List(ctx, jobtable.Query{
		Kind: subject.Video, Tenant: callOf(ctx).tenant, Status: m.GetStatus(),
		CreatedFrom: jobtable.Bound(m.GetCreatedAfter()), CreatedBefore: jobtable.Bound(m.GetCreatedBefore()),
		Size: int(m.GetPageSize()), Token: m.GetPageToken(),
	})
	if err != nil {
		return nil, err
	}
	out := &genbusv1.ListVideoTasksResponse{NextPageToken: page.NextToken}
	for _, e := range page.Jobs {
		out.Tasks = append(out.Tasks, core.VideoOf(e))
	}
	return out, nil
}

func listViolations(m *genbusv1.ListVideoTasksRequest) []errcode.Violation {
	var out []errcode.Violation
	add := func(field, description string) {
		out = append(out, errcode.Violation{Field: field, Description: description})
	}
	if _, known := genbusv1.JobStatus_name[int32(m.GetStatus())]; !known {
		add("status", core.StatusRule)
	}
	if m.GetPageSize() < 0 {
		add("page_size", "must be 0 to 100")
	}
	if t := m.GetCreatedAfter(); t != nil && !t.IsValid() {
		add("created_after", "is not a valid time")
	}
	if t := m.GetCreatedBefore(); t != nil && !t.IsValid() {
		add("created_before", "is not a valid time")
	}
	return out
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
