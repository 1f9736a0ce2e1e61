package publisher_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/publisher"
)

// TestFactsAreReadBack checks that facts with arbitrary text survive the header, and that a reader
// can tell whether labels were cut.
func TestFactsAreReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z0-9_-]{0,64}`)
		labels := rapid.MapOfN(rapid.StringN(1, 20, 128), rapid.StringN(0, 20, 128), 0, 16).Draw(t, "labels")
		v := &genbusv1.VideoTask{
			Model: rapid.StringN(0, 60, 256).Draw(t, "model"), UpstreamTaskId: rapid.StringN(0, 60, 256).Draw(t, "task"), Labels: labels, Progress: int32(rapid.IntRange(0, 100).Draw(t, "progress")),
			Error:     &genbusv1.TaskError{Code: rapid.SampledFrom([]string{"", "deadline_exceeded"}).Draw(t, "code")},
			Execution: &genbusv1.Execution{Phase: genbusv1.JobPhase_JOB_PHASE_SUBMITTED, Route: name.Draw(t, "route"), Upstream: name.Draw(t, "upstream"), UpstreamKey: name.Draw(t, "key")},
		}
		header := publisher.FactsOf(v).Header()
		if len(header) > publisher.MaxFacts {
			t.Fatalf("%d bytes: %s", len(header), header)
		}
		if i := strings.IndexFunc(header, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
			t.Fatalf("the header has %q", header[i])
		}
		f := publisher.ParseFacts(header)
		x := v.GetExecution()
		if f.Phase != "submitted" || f.Route != x.GetRoute() || f.Upstream != x.GetUpstream() || f.Key != x.GetUpstreamKey() || f.ErrorCode != v.GetError().GetCode() || cmp.Or(f.Progress, "0") != fmt.Sprint(v.GetProgress()) {
			t.Fatalf("%+v of %s", f, header)
		}
		if f.Model != "" && f.Model != v.GetModel() || f.UpstreamTask != "" && f.UpstreamTask != v.GetUpstreamTaskId() {
			t.Fatalf("%+v of %s", f, header)
		}
		got, all := f.Labels.Map()
		if all != (len(got) == len(labels)) {
			t.Fatalf("%d of %d labels, all: %t: %s", len(got), len(labels), all, header)
		}
		for k, value := range labels {
			read, there := got[k]
			has, sure := f.Labels.Has(publisher.LabelOf(k, value))
			if there && read != value || there != has || !has && sure {
				t.Fatalf("label %q is %q, want %q; has %t, sure %t: %s", k, read, value, has, sure, header)
			}
			if has, _ := f.Labels.Has(publisher.LabelOf(k, value+"x")); has {
				t.Fatalf("label %q has another value: %s", k, header)
			}
		}
	})
}

// TestShortFactsAreWhole checks that typical facts fit.
func TestShortFactsAreWhole(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 123_456_789)
	v := &genbusv1.VideoTask{
		Model: "sora-2", UpstreamTaskId: "task_1", RetryOf: "video_a", Labels: map[string]string{"team": "a&b=c;d", "cut": ""},
		Execution: &genbusv1.Execution{Route: "film", Upstream: "u", FirstSubmitAt: timestamppb.New(begun)},
	}
	f := publisher.ParseFacts(publisher.FactsOf(v).Header())
	if want := (publisher.Facts{Phase: "unknown", Route: "film", Model: "sora-2", Upstream: "u", UpstreamTask: "task_1", RetryOf: "video_a", Begun: publisher.Moment(begun), Labels: "cut=&team=a%26b%3Dc%3Bd"}); f != want {
		t.Errorf("got %+v, want %+v", f, want)
	}
	if at, known := f.BegunAt(); !known || !at.Equal(begun) {
		t.Errorf("begun at %s, %t", at, known)
	}
	if _, known := publisher.ParseFacts("begun=x.y").BegunAt(); known {
		t.Error("what is no time is one")
	}
	if labels, all := f.Labels.Map(); !all || fmt.Sprint(labels) != fmt.Sprint(v.GetLabels()) {
		t.Errorf("%v, all: %t", labels, all)
	}
}

// FuzzParseFacts checks that no header breaks the parser.
func FuzzParseFacts(f *testing.F) {
	for _, seed := range []string{"", "phase=queued", "phase=queued;a=b&cut", ";", "%zz=%zz;%zz", "phase=%zz&&=&route=a=b;cut", ";;;"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, header string) {
		facts := publisher.ParseFacts(header)
		_, _ = facts.Labels.Map()
		_, _ = facts.Labels.Has("a=b")
		_ = facts.Header()
	})
}
