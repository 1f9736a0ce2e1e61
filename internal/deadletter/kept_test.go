package deadletter_test

import (
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/task"
)

// TestADeadLetterOfAKeptRequest proves that a dead letter contains the request instead of referring
// to the kept copy, which belongs to the job.
func TestADeadLetterOfAKeptRequest(t *testing.T) {
	t.Parallel()
	ref := &genbusv1.BlobRef{Bucket: "b", Name: "video_x-request-1", Size: 2}
	for _, item := range []*genbusv1.WorkItem{{Body: []byte(`{}`), BodyRef: ref}, {BodyRef: ref}} {
		item.Kind = "video"
		l := deadletter.FromJob(item, task.FromWork(item).Job, errcode.New(errcode.Poisoned, "x"))
		if kept := len(item.GetBody()) > 0; string(l.GetData()) != string(item.GetBody()) || kept == (l.GetDataRef() != nil) {
			t.Errorf("the dead letter of %v has %q and %v", item, l.GetData(), l.GetDataRef())
		}
	}
}
