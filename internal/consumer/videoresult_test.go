package consumer

import (
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// TestArchive: the result is copied before the task completes; a copy that fails
// for good does not fail the task, and is visible.
func TestArchive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model string
		code  string
	}{
		"by URL":     {"sandbox-video", ""},
		"by the id":  {"sandbox-videos", ""},
		"a redirect": {"sandbox-videos:content=redirect", ""},
		"expired":    {"sandbox-videos:content=expired", "content_expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) {
				for i := range c.Routes {
					if c.Routes[i].Kind == config.KindVideo {
						c.Routes[i].Archive, c.Routes[i].Timeouts.Archive = true, 2*time.Second
					}
				}
			}))
			end := last(follow(t, r.log, publish(t, b, subject.Video, "v", videoRequest("v", c.model, "a cat"))))
			v, _ := end.Job.(*genbusv1.VideoTask)
			if v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || v.GetArchive().GetError().GetCode() != c.code {
				t.Fatalf("ended %v, archive %v", v.GetStatus(), v.GetArchive())
			}
			if c.code != "" {
				return
			}
			ref := v.GetVideos()[0].GetArchived()
			if ref.GetSize() == 0 || ref.GetContentType() != "video/mp4" || len(v.GetArchive().GetFiles()) != 1 {
				t.Errorf("archive %v", v.GetArchive())
			}
			if _, err := r.Bodies.Get(t.Context(), broker.Body{Bucket: ref.GetBucket(), Name: ref.GetName(), Size: ref.GetSize(), SHA256: [32]byte(ref.GetSha256())}); err != nil {
				t.Error(err)
			}
			doneOnce(t, b, end)
		})
	}
}
