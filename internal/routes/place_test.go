package routes_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
)

// TestResultsThatNeedTheKey checks that a result needs the key exactly if it is on the origin of an
// upstream with a key or a signature, however the URL is spelled.
func TestResultsThatNeedTheKey(t *testing.T) {
	t.Parallel()
	withKey := func(url, key string) config.Upstream {
		u := config.NewUpstream(url)
		u.Key = config.NewSecret(key)
		return u
	}
	routes := table(t, config.Upstreams{
		"keyed": withKey("https://Up.example/api", "k1"), "ported": withKey("http://up.example:8080", "k2"), "six": withKey("http://[::1]:80", "k3"),
		"open": config.NewUpstream("https://open.example"), "signed": signed("https://signed.example"),
	}, route("videos", "videos", "keyed", "ported", "six", "open"), route("kling", "kling", "signed"))
	for _, row := range []struct {
		upstream, url string
		want          bool
	}{
		{"keyed", "https://up.example/v1/videos/1/content", true},
		{"keyed", "HTTPS://UP.example:443/elsewhere?a=b#c", true},
		{"keyed", "http://up.example/x", false},
		{"keyed", "https://up.example:8443/x", false},
		{"keyed", "https://cdn.up.example/x", false},
		{"keyed", "https://up.example.evil.example/x", false},
		{"keyed", "https://up.example@evil.example/x", false},
		{"keyed", "//up.example/x", false},
		{"keyed", "data:video/mp4;base64,aGk=", false},
		{"keyed", "ftp://up.example/x", false},
		{"keyed", "https:///x", false},
		{"keyed", ":", false},
		{"keyed", "", false},
		{"ported", "http://up.example:8080/x", true},
		{"ported", "http://up.example/x", false},
		{"six", "http://[::1]/x", true},
		{"open", "https://open.example/files/1.mp4", false},
		{"signed", "https://signed.example/x", true},
		{"gone", "https://up.example/x", false},
	} {
		name := "videos"
		if row.upstream == "signed" {
			name = "kling"
		}
		task := &genbusv1.VideoTask{Protocol: name, Execution: &genbusv1.Execution{Route: name, Upstream: row.upstream}}
		if got := routes.NeedsKey(task, row.url); got != row.want {
			t.Errorf("%s, %q: %t, want %t", row.upstream, row.url, got, row.want)
		}
	}
	if moved := (&genbusv1.VideoTask{Protocol: "kling", Execution: &genbusv1.Execution{Route: "removed", Upstream: "signed"}}); !routes.NeedsKey(moved, "https://signed.example/x") {
		t.Error("a task whose route was removed is not known by its upstream")
	}
}

// TestFreshContent checks that content is fresh while it is archived, which is before the task
// completes, and for ten minutes after that.
func TestFreshContent(t *testing.T) {
	t.Parallel()
	routes := table(t, config.Upstreams{"up": config.NewUpstream("https://up.example")}, route("videos", "videos", "up"))
	for name, row := range map[string]struct {
		ended *timestamppb.Timestamp
		fresh bool
	}{
		"being archived": {nil, true},
		"just completed": {timestamppb.Now(), true},
		"older":          {timestamppb.New(time.Now().Add(-time.Hour)), false},
	} {
		task := &genbusv1.VideoTask{Protocol: "videos", CompletedAt: row.ended, Execution: &genbusv1.Execution{Route: "videos", Upstream: "up"}}
		if at, err := routes.Place(task, ""); err != nil || at.Fresh != row.fresh {
			t.Errorf("%s: %+v, %v", name, at, err)
		}
	}
}
