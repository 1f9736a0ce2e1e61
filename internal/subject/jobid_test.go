package subject

import (
	"strings"
	"testing"
)

func TestJobID(t *testing.T) {
	t.Parallel()
	a := JobID(Video, "acme", "s")
	for _, other := range []string{
		JobID(Chat, "acme", "s"), JobID(Video, "acm", "es"), JobID(Video, "acme", "t"),
	} {
		if other == a {
			t.Errorf("two sources have the id %s", a)
		}
	}
	if kind, ok := KindOf(a); !ok || kind != Video || len(a) != len("video_")+26 {
		t.Errorf("%s is %s, %t", a, kind, ok)
	}
	for _, bad := range []string{"", "video_", "audio_" + a[6:], a + "x", "video_" + strings.Repeat(".", 26)} {
		if _, ok := KindOf(bad); ok {
			t.Errorf("%q passes as an id", bad)
		}
	}
}
