package subject

import (
	"strings"
	"testing"
)

func TestNewRefusesIllegalPrefixes(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{".", "a..b", "a b", "a.*", "a.>", "ä", strings.Repeat("x", 65)} {
		if _, err := New(prefix); err == nil {
			t.Errorf("New(%q) succeeded", prefix)
		}
	}
	s, err := New("team-a.genbus")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Task(Video, "t", "i"), "team-a.genbus.task.video.t.i"; got != want {
		t.Errorf("Task = %q, want %q", got, want)
	}
	if got, want := s.Tasks(), "TEAM_A_GENBUS_TASKS"; got != want {
		t.Errorf("Tasks = %q, want %q", got, want)
	}
}

func TestNamesAreThoseOfTheDesign(t *testing.T) {
	t.Parallel()
	s := Default()
	for _, row := range []struct{ got, want string }{
		{s.Requests(), "GENBUS_REQUESTS"},
		{s.Work(), "GENBUS_WORK"},
		{s.Tasks(), "GENBUS_TASKS"},
		{s.Chunks(), "GENBUS_CHUNKS"},
		{s.Dead(), "GENBUS_DEAD"},
		{s.Rejected(), "GENBUS_REJECTED"},
		{s.RequestPattern(Chat), "genbus.request.chat.*"},
		{s.Request(Video, "acme"), "genbus.request.video.acme"},
		{s.Call(Video, "acme"), "genbus.call.video.acme"},
		{s.CallPattern(Video), "genbus.call.video.*"},
		{s.Get(Video, "acme"), "genbus.get.video.acme"},
		{s.List(Chat, "acme"), "genbus.list.chat.acme"},
		{s.Cancel(Video, "acme"), "genbus.cancel.video.acme"},
		{s.Content("acme"), "genbus.content.acme"},
		{s.Models("acme"), "genbus.models.acme"},
		{s.WorkItem(Video, "r", "acme", "video_1"), "genbus.work.video.r.acme.video_1"},
		{s.WorkAnyRoute(Video, "acme", "video_1"), "genbus.work.video.*.acme.video_1"},
		{s.WorkRoutePattern(Chat, "r"), "genbus.work.chat.r.>"},
		{s.WorkPattern(), "genbus.work.>"},
		{s.Wait(), "GENBUS_WAIT"},
		{s.WaitItem(Video, "r", "acme", "video_1"), "genbus.wait.video.r.acme.video_1"},
		{s.WaitAnyRoute(Video, "acme", "video_1"), "genbus.wait.video.*.acme.video_1"},
		{s.WaitTenantPattern(Video, "r", "acme"), "genbus.wait.video.r.acme.*"},
		{s.WaitRoutePattern(Chat, "r"), "genbus.wait.chat.r.>"},
		{s.WaitPattern(), "genbus.wait.>"},
		{s.Task(Chat, "acme", "chat_1"), "genbus.task.chat.acme.chat_1"},
		{s.TaskPattern(), "genbus.task.>"},
		{s.Done(Video, "acme", "completed", "video_1"), "genbus.done.video.acme.completed.video_1"},
		{s.DonePattern(), "genbus.done.>"},
		{s.LiveTask(Video, "acme", "video_1"), "genbus.live.task.video.acme.video_1"},
		{s.LiveTaskPattern(), "genbus.live.task.>"},
		{s.Chunk("acme", "chat_1"), "genbus.chunk.acme.chat_1"},
		{s.ChunkPattern(), "genbus.chunk.>"},
		{s.LiveChunk("acme", "chat_1"), "genbus.live.chunk.acme.chat_1"},
		{s.LiveChunkPattern(), "genbus.live.chunk.>"},
		{s.DeadLetter(Video, "acme", "video_1"), "genbus.dead.video.acme.video_1"},
		{s.DeadLetter(Video, "a b", "seq-7"), "genbus.dead.video._invalid.seq-7"},
		{s.DeadPattern(), "genbus.dead.>"},
		{s.RejectedDeadLetter(Video, "a b", "7"), "genbus.rejected.video._invalid.7"},
		{s.RejectedPattern(), "genbus.rejected.>"},
		{s.RejectedDeadLetters("", "acme"), "genbus.rejected.*.acme.*"},
		{s.UsageStream(), "GENBUS_USAGE"},
		{s.UsagePattern(), "genbus.usage.>"},
		{s.Usage(Chat, "acme", "chat_1"), "genbus.usage.chat.acme.chat_1"},
		{s.DeadLetters("", ""), "genbus.dead.*.*.*"},
		{s.DeadLetters(Chat, "acme"), "genbus.dead.chat.acme.*"},
		{s.Bodies("acme"), "GENBUS_BODIES_acme"},
		{WorkDurable(Video, "r"), "video-r"},
		{IntakeDurable(Chat), "intake-chat"},
	} {
		if row.got != row.want {
			t.Errorf("got %q, want %q", row.got, row.want)
		}
	}
}

func TestParseRequestNamesTheIllegalTenant(t *testing.T) {
	t.Parallel()
	_, tenant, err := Default().ParseRequest("genbus.request.video.a b")
	if err == nil || tenant != "a b" {
		t.Errorf("tenant %q, err %v; want the tenant as it stands and an error", tenant, err)
	}
}

func TestTenantOf(t *testing.T) {
	t.Parallel()
	s := Default()
	for _, subject := range []string{s.Get(Video, "acme"), s.List(Chat, "acme"), s.Cancel(Video, "acme"), s.Content("acme"), s.Models("acme")} {
		if tenant, err := TenantOf(subject); tenant != "acme" || err != nil {
			t.Errorf("%s: %q, %v", subject, tenant, err)
		}
	}
	for _, tenant := range []string{"", "a b", "*", strings.Repeat("a", 65)} {
		if _, err := TenantOf(s.Models(tenant)); err == nil {
			t.Errorf("the tenant %q passes", tenant)
		}
	}
}

// FuzzParse checks that no subject breaks a parser, and that building a parsed name gives the same
// subject.
func FuzzParse(f *testing.F) {
	s := Default()
	for _, seed := range []string{
		s.Request(Video, "t"), s.Call(Chat, "t"), s.WorkItem(Video, "r", "t", "i"), s.WaitItem(Chat, "r", "t", "i"), s.Task(Chat, "t", "i"),
		s.Done(Video, "t", "failed", "i"), s.LiveTask(Video, "t", "i"), s.Chunk("t", "i"), s.LiveChunk("t", "i"),
		s.DeadLetter(Chat, "t", "i"), s.Usage(Video, "t", "i"), "genbus.task.audio.t.i", "genbus.work..r.t.i", "genbus.request.video.a.b", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		built := func(again string, err error) {
			if err == nil && again != subject {
				t.Errorf("%q parsed and became %q", subject, again)
			}
		}
		k, tenant, err := s.ParseRequest(subject)
		built(s.Request(k, tenant), err)
		k, tenant, err = s.ParseCall(subject)
		built(s.Call(k, tenant), err)
		w, err := s.ParseWorkItem(subject)
		built(s.WorkItem(w.Kind, w.Route, w.Tenant, w.ID), err)
		w, err = s.ParseWaitItem(subject)
		built(s.WaitItem(w.Kind, w.Route, w.Tenant, w.ID), err)
		n, err := s.ParseTask(subject)
		built(s.Task(n.Kind, n.Tenant, n.ID), err)
		n, err = s.ParseLiveTask(subject)
		built(s.LiveTask(n.Kind, n.Tenant, n.ID), err)
		d, err := s.ParseDone(subject)
		built(s.Done(d.Kind, d.Tenant, d.Status, d.ID), err)
		tenant, id, err := s.ParseChunk(subject)
		built(s.Chunk(tenant, id), err)
		tenant, id, err = s.ParseLiveChunk(subject)
		built(s.LiveChunk(tenant, id), err)
		n, err = s.ParseUsage(subject)
		built(s.Usage(n.Kind, n.Tenant, n.ID), err)
	})
}

// TestParseWorkDurable checks that a consumer of another program names no route, because commands
// that operators copy contain the name.
func TestParseWorkDurable(t *testing.T) {
	t.Parallel()
	if k, route, ok := ParseWorkDurable(WorkDurable(Video, "film-2")); k != Video || route != "film-2" || !ok {
		t.Errorf("%s %s, %t", k, route, ok)
	}
	for _, other := range []string{"video", "video-", "film-r", "video-$(reboot)"} {
		if _, route, ok := ParseWorkDurable(other); ok {
			t.Errorf("%s is of route %s", other, route)
		}
	}
}
