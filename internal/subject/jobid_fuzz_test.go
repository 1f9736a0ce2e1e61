package subject_test

import (
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/subject"
)

// FuzzKindOf checks that every accepted ID is a legal token, and that JobID makes IDs of the
// requested kind.
func FuzzKindOf(f *testing.F) {
	for _, seed := range []string{
		"", "video_", "video_aaaaaaaaaaaaaaaaaaaaaaaaaa", "chat_aaaaaaaaaaaaaaaaaaaaaaaaaa", "image_aaaaaaaaaaaaaaaaaaaaaaaaaa", "video_aaaaaaaaaaaaaaaaaaaaaaaaa.", "video_" + strings.Repeat("*", 26),
		"video_aaaaaaaaaaaaaaaaaaaaaaaaa\n", "VIDEO_aaaaaaaaaaaaaaaaaaaaaaaaaa", "video_" + strings.Repeat("\xff", 26), "video__aaaaaaaaaaaaaaaaaaaaaaaaa",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if kind, ok := subject.KindOf(id); ok && (subject.CheckToken(id) != nil || !kind.Valid() || !strings.HasPrefix(id, string(kind)+"_")) {
			t.Fatalf("%q is a %s", id, kind)
		}
		for _, kind := range subject.Kinds {
			if got, ok := subject.KindOf(subject.JobID(kind, "acme", id)); !ok || got != kind {
				t.Fatalf("an id of a %s is one of a %q", kind, got)
			}
		}
	})
}
