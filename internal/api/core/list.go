package core

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
)

// ListRequest is a ListVideoTasksRequest or a ListChatCompletionsRequest.
type ListRequest interface {
	GetStatus() genbusv1.JobStatus
	GetCreatedAfter() *timestamppb.Timestamp
	GetCreatedBefore() *timestamppb.Timestamp
	GetPageSize() int32
	GetPageToken() string
}

// ListQuery returns the query of a request for a page of a tenant's jobs.
func ListQuery(kind subject.Kind, tenant string, m ListRequest) (jobtable.Query, error) {
	if v := listViolations(m); len(v) > 0 {
		return jobtable.Query{}, errcode.Invalid(v)
	}
	return jobtable.Query{
		Kind: kind, Tenant: tenant, Status: m.GetStatus(),
		CreatedFrom: jobtable.Bound(m.GetCreatedAfter()), CreatedBefore: jobtable.Bound(m.GetCreatedBefore()),
		Size: int(m.GetPageSize()), Token: m.GetPageToken(),
	}, nil
}

func listViolations(m ListRequest) []errcode.Violation {
	var out []errcode.Violation
	add := func(field, description string) {
		out = append(out, errcode.Violation{Field: field, Description: description})
	}
	if _, known := genbusv1.JobStatus_name[int32(m.GetStatus())]; !known {
		add("status", body.StatusRule)
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

// VideoPage returns a page of video tasks.
func VideoPage(page jobindex.Page) *genbusv1.ListVideoTasksResponse {
	out := &genbusv1.ListVideoTasksResponse{NextPageToken: page.NextToken}
	for _, e := range page.Jobs {
		out.Tasks = append(out.Tasks, VideoOf(e))
	}
	return out
}

// ChatPage returns a page of chats. It removes the replies, because a page of long replies would be
// too large for a message.
func ChatPage(page jobindex.Page) *genbusv1.ListChatCompletionsResponse {
	out := &genbusv1.ListChatCompletionsResponse{NextPageToken: page.NextToken}
	for _, e := range page.Jobs {
		chat := ChatOf(e) // safe to modify, because List decoded it for this page
		chat.ReplyJson, chat.ReplyRef = nil, nil
		out.Chats = append(out.Chats, chat)
	}
	return out
}
