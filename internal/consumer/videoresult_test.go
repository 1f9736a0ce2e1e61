package consumer

import (
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/subject"
)

// TestArchive proves that a result is copied before the job completes, and that a permanent failure
// of the copy is visible and does not fail the job.
func TestArchive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model  string
		code   string
		within time.Duration // until an unsuccessful copy is given up
	}{
		"by URL":     {"sandbox-video", "", jobtest.Patience},
		"by the id":  {"sandbox-videos", "", jobtest.Patience},
		"a redirect": {"sandbox-videos:content=redirect", "", jobtest.Patience},
		"expired":    {"sandbox-videos:content=expired", "content_expired", 3900 * time.Millisecond}, // over before the retry
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, up.URL(), func(cfg *config.Config) {
				for i := range cfg.Routes {
					if cfg.Routes[i].Kind == config.KindVideo {
						cfg.Routes[i].Archive, cfg.Routes[i].Timeouts.Archive = true, c.within
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
