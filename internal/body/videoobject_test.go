package body

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// completedTask returns a completed task with only the fields that every task has, modified by
// change.
func completedTask(change func(*genbusv1.VideoTask)) *genbusv1.VideoTask {
	v := &genbusv1.VideoTask{
		Id: "video_a", Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED, Progress: 100, Model: "m",
		CreatedAt: at(10), UpdatedAt: at(20), CompletedAt: at(20),
	}
	change(v)
	return v
}

func TestVideoObject(t *testing.T) {
	t.Parallel()
	const head, tail = `{"id":"video_a","object":"video","model":"m",`, `"remixed_from_video_id":null,`
	for name, row := range map[string]struct {
		task *genbusv1.VideoTask
		want string
	}{
		"queued": {
			&genbusv1.VideoTask{Id: "video_a", Status: genbusv1.JobStatus_JOB_STATUS_QUEUED, Model: "m", CreatedAt: at(10), Size: "1280x720", Seconds: "4"},
			head + `"status":"queued","progress":0,"created_at":10,"completed_at":null,"expires_at":null,"prompt":null,"size":"1280x720","seconds":"4",` + tail + `"error":null}`,
		},
		"completed, with a URL that expires": {
			completedTask(func(v *genbusv1.VideoTask) {
				v.Videos = []*genbusv1.Video{{Url: "https://x/1?a=b&c", Width: 720, Height: 1280, DurationSeconds: 5.1, ExpiresAt: at(30)}}
				v.Size = "9:16"
			}),
			head + `"status":"completed","progress":100,"created_at":10,"completed_at":20,"expires_at":30,"prompt":null,"size":"720x1280","seconds":"5.1",` +
				tail + `"error":null,"metadata":{"url":"https://x/1?a=b&c"}}`,
		},
		"a copy does not expire with the URL": {
			completedTask(func(v *genbusv1.VideoTask) {
				v.Videos = []*genbusv1.Video{{Url: "https://x/1", ExpiresAt: at(30), Archived: &genbusv1.BlobRef{Name: "n"}}}
				v.Seconds = "5"
			}),
			head + `"status":"completed","progress":100,"created_at":10,"completed_at":20,"expires_at":null,"prompt":null,"size":"","seconds":"5",` +
				tail + `"error":null,"metadata":{"url":"https://x/1"}}`,
		},
		"the upstream's own metadata, and labels": {
			completedTask(func(v *genbusv1.VideoTask) {
				v.Videos, v.MetadataJson, v.Labels = []*genbusv1.Video{{}}, []byte(`{"seed":12345678901234567890}`), map[string]string{"b": "2", "a": "1"}
			}),
			head + `"status":"completed","progress":100,"created_at":10,"completed_at":20,"expires_at":null,"prompt":null,"size":"","seconds":"",` +
				tail + `"error":null,"metadata":{"seed":12345678901234567890},"labels":{"a":"1","b":"2"}}`,
		},
		"failed has no completed_at": {
			&genbusv1.VideoTask{
				Id: "video_a", Status: genbusv1.JobStatus_JOB_STATUS_FAILED, Progress: 40, Model: "m", CreatedAt: at(10), CompletedAt: at(20),
				Error: &genbusv1.TaskError{Code: "upstream_failed", Message: "it\nfailed", UpstreamCode: "50413"},
			},
			head + `"status":"failed","progress":40,"created_at":10,"completed_at":null,"expires_at":null,"prompt":null,"size":"","seconds":"",` +
				tail + `"error":{"code":"upstream_failed","message":"it\nfailed","retryable":false,"upstream_code":"50413"}}`,
		},
		"cancelled reads failed": {
			&genbusv1.VideoTask{
				Id: "video_a", Status: genbusv1.JobStatus_JOB_STATUS_CANCELLED, Model: "m", CreatedAt: at(10), CompletedAt: at(20),
				Error: &genbusv1.TaskError{Code: "cancelled", Message: "x"},
			},
			head + `"status":"failed","progress":0,"created_at":10,"completed_at":null,"expires_at":null,"prompt":null,"size":"","seconds":"",` +
				tail + `"error":{"code":"cancelled","message":"x","retryable":false}}`,
		},
	} {
		if diff := cmp.Diff(row.want, string(VideoObjectJSON(row.task))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestVideoObjectList(t *testing.T) {
	t.Parallel()
	if got, want := string(VideoObjectListJSON(nil, false)), `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`; got != want {
		t.Errorf("empty: %s", got)
	}
	one, two := completedTask(func(*genbusv1.VideoTask) {}), completedTask(func(v *genbusv1.VideoTask) { v.Id = "video_b" })
	want := `{"object":"list","data":[` + string(VideoObjectJSON(one)) + `,` + string(VideoObjectJSON(two)) + `],"first_id":"video_a","last_id":"video_b","has_more":true}`
	if got := string(VideoObjectListJSON([]*genbusv1.VideoTask{one, two}, true)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := string(VideoDeletedJSON("video_a")); got != `{"id":"video_a","object":"video.deleted","deleted":true}` {
		t.Errorf("deleted: %s", got)
	}
}

// FuzzVideoObject checks that every task yields valid JSON.
func FuzzVideoObject(f *testing.F) {
	for _, v := range []*genbusv1.VideoTask{
		completedTask(func(v *genbusv1.VideoTask) { v.MetadataJson = []byte(`{"a`) }),
		completedTask(func(v *genbusv1.VideoTask) { v.Videos = []*genbusv1.Video{{Url: "u"}, nil} }),
		{Status: 99, CreatedAt: at(-1), Error: &genbusv1.TaskError{}},
	} {
		data, err := proto.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v genbusv1.VideoTask
		if proto.Unmarshal(data, &v) != nil {
			return
		}
		jsonValue(t, VideoObjectJSON(&v))
		jsonValue(t, VideoObjectListJSON([]*genbusv1.VideoTask{&v}, true))
	})
}
