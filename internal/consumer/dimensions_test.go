package consumer

import (
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestSizeAndSecondsOfTheUpstream proves that size and seconds come from the upstream, from its
// answer to the create on, unless the request has them.
func TestSizeAndSecondsOfTheUpstream(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	asked := func(name, size, seconds string) *genbusv1.VideoRequest {
		v := &genbusv1.VideoGeneration{Model: "sandbox-videos", Prompt: name, ExtraJson: []byte(`{` + size + seconds + `}`)}
		return &genbusv1.VideoRequest{RequestId: name, Body: &genbusv1.VideoRequest_Video{Video: v}}
	}
	for _, row := range []struct{ name, size, seconds, wantSize, wantSeconds string }{
		{"neither", ``, ``, "720x1280", "4"},
		{"both", `"size":"1280x720",`, `"seconds":"8"`, "1280x720", "8"},
	} {
		id := publish(t, b, subject.Video, row.name, asked(row.name, row.size, row.seconds))
		for _, e := range follow(t, r.log, id) {
			v, _ := e.Job.(*genbusv1.VideoTask)
			if phase := v.GetExecution().GetPhase(); phase == genbusv1.JobPhase_JOB_PHASE_QUEUED || phase == genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
				continue
			}
			if v.GetSize() != row.wantSize || v.GetSeconds() != row.wantSeconds {
				t.Errorf("%s: version %d has size %q and seconds %q", row.name, v.GetVersion(), v.GetSize(), v.GetSeconds())
			}
		}
	}
}
