package apitest

import (
	"regexp"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Request IDs of acme that globex knows, and a label value that all of acme's jobs have.
const (
	AcmeOrder = "order-7"
	AcmeShot  = "shot-7"
	AcmeTalk  = "talk-7"
	AcmeMark  = "acme-mark-81c2"
)

// Tenancy is a world with an operator and two tenants: acme has jobs of every kind, and globex has
// none.
type Tenancy struct {
	*World
	// IDs of acme's jobs: a queued and an ended video, and a queued and an ended chat.
	Queued, Ended, Talk, Talked string
	// Token is a page token from acme's list.
	Token string
}

// NewTenancy returns a Tenancy with acme's jobs.
func NewTenancy(t *testing.T) *Tenancy {
	t.Helper()
	w := &Tenancy{World: New(t, UpstreamAt(NewHost(t, ServeFilm)), TwoTenants, WithOperator, readBodies)}
	labels := []string{"Genbus-Labels", "mark=" + AcmeMark}
	w.Queued = w.CreateVideo(w.Acme(append(labels, "Idempotency-Key", AcmeOrder)...)...)
	shot := w.Post(KlingText, `{"model_name":"sandbox-kling","prompt":"`+AcmeMark+`","external_task_id":"`+AcmeShot+`"}`, w.Acme(labels...)...)
	w.Ended = shot.Header.Get("Genbus-Job-Id")
	w.finish(w.Ended)
	talk := func(headers ...string) string {
		a := w.Post("/v1/chat/completions", TalkBody(AcmeMark), w.Acme(append(labels, headers...)...)...)
		return a.Header.Get("Genbus-Job-Id")
	}
	w.Talk = talk("Idempotency-Key", AcmeTalk, "Prefer", "respond-async")
	w.Talked = talk("Prefer", "respond-async")
	w.EndChat(w.StartChat("acme", w.Talked), `{"id":"x","object":"chat.completion","choices":[],"created":1,"model":"`+AcmeMark+`"}`, 0)
	w.Await("acme's list", func() bool {
		page := w.Get("/genbus/v1/videos?page_size=1", w.Acme()...).JSON(t)
		w.Token, _ = page["next_page_token"].(string)
		return w.Token != ""
	})
	return w
}

func (w *Tenancy) finish(id string) {
	w.T.Helper()
	e := w.StartVideo("acme", id)
	next, err := task.Completed(core.VideoOf(e), time.Now(), task.Result{Videos: []*genbusv1.Video{{Url: w.Cfg.Upstreams["sandbox"].BaseURL + "/" + AcmeMark + ".mp4"}}})
	w.Commit(e, next, err)
}

// TalkBody returns a chat request with a text.
func TalkBody(text string) string {
	return `{"model":"sandbox-chat","messages":[{"role":"user","content":"` + text + `"}]}`
}

// Acme adds acme's key to headers.
func (w *Tenancy) Acme(headers ...string) []string {
	return append([]string{"Authorization", "Bearer key-acme"}, headers...)
}

// IDs returns the IDs of all of acme's jobs with their kinds.
func (w *Tenancy) IDs() map[string]subject.Kind {
	return map[string]subject.Kind{w.Queued: subject.Video, w.Ended: subject.Video, w.Talk: subject.Chat, w.Talked: subject.Chat}
}

// Never returns an unused ID of the same kind as id.
func Never(id string) string {
	kind, _, _ := strings.Cut(id, "_")
	return kind + "_" + strings.Repeat("a", 26)
}

// States returns the sequence of the last event of each of acme's jobs. Only acme may change them.
func (w *Tenancy) States() map[string]uint64 {
	w.T.Helper()
	out := map[string]uint64{}
	for id, kind := range w.IDs() {
		out[id] = w.Entry(kind, "acme", id).Seq
	}
	return out
}

// Reveals reports whether an answer reveals anything about acme.
func (w *Tenancy) Reveals(text string) bool {
	for id := range w.IDs() {
		if strings.Contains(text, id) {
			return true
		}
	}
	return strings.Contains(text, AcmeMark) || strings.Contains(text, "acme")
}

// AnyID matches a job ID.
var AnyID = regexp.MustCompile(`(video|chat)_[a-z2-7]{26}`)

// AcmeMay returns a configuration change that adds both tenants and sets limits for acme only.
func AcmeMay(l config.TenantLimits) func(*config.Config) {
	return func(c *config.Config) {
		TwoTenants(c)
		c.Tenants = config.Tenants{"acme": config.TenantOverride(l)}
	}
}

// Headers with the keys of TwoTenants.
var (
	ByAcme   = []string{"Authorization", "Bearer key-acme"}
	ByGlobex = []string{"Authorization", "Bearer key-globex"}
)
