package cli

import (
	"fmt"
	"strings"
	"testing"
)

func TestDemoShowsTheWholeJob(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := demo(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"published", "(submitting)", "in_progress", "chunk", "completed   video_", "completed   chat_",
		"What a late subscriber sees", "genbus.done.>", "genbus.video.task.completed.v1", "genbus.chat.completed.v1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demo does not show %q", want)
		}
	}
	if n := strings.Count(out.String(), "  chunk  "); !strings.Contains(out.String(), fmt.Sprintf("%d chunks, ", n)) {
		t.Errorf("%d chunks are shown, which is not what the end says:\n%s", n, out.String())
	}
	if n := strings.Count(out.String(), ".done."); n != 1 {
		t.Errorf("the feed is shown %d times:\n%s", n, out.String())
	}
}
