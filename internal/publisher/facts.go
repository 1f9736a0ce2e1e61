package publisher

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
)

const (
	// MaxFacts bounds the header of the facts, in bytes.
	MaxFacts = 512
	// maxFact bounds each of the facts, escaped. Longer ones are left out: only a model's name
	// and an upstream's id of a task can be.
	maxFact = 128
	// labelsCut is the last of the labels where not all of them had room. It is no pair: every
	// pair has a "=".
	labelsCut = "cut"
	// maxHead bounds the facts before the labels.
	maxHead = MaxFacts - len(";"+labelsCut)
)

// Facts are what an event's header subject.HeaderIndex says of its job, for those that look
// for jobs and do not read the events themselves. Empty fields are unknown.
type Facts struct {
	Phase string // task.PhaseWord
	Route string
	Model string
	// Upstream and Key are the upstream key that the job was submitted with, by their names.
	Upstream, Key string
	UpstreamTask  string // the upstream's id of the task
	ErrorCode     string
	Begun         string // when the first submission or attempt began, as Moment writes it
	Labels        Labels
}

// Labels are those of a job as an application/x-www-form-urlencoded text, sorted by key.
type Labels string

// FactsOf are those of a job.
func FactsOf(j task.Job) Facts {
	x := j.GetExecution()
	f := Facts{
		Phase: task.PhaseWord(x.GetPhase()), Route: x.GetRoute(), Model: j.GetModel(), Upstream: x.GetUpstream(), Key: x.GetUpstreamKey(),
		ErrorCode: j.GetError().GetCode(),
	}
	if begun := x.GetFirstSubmitAt(); begun != nil {
		f.Begun = Moment(begun.AsTime())
	}
	if v, ok := j.(*genbusv1.VideoTask); ok {
		f.UpstreamTask = v.GetUpstreamTaskId()
	}
	f.Labels = labelsOf(j.GetLabels(), maxHead-len(f.head()))
	return f
}

// labelsOf are as many labels as have room.
func labelsOf(labels map[string]string, room int) Labels {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		pair := LabelOf(k, labels[k])
		if room -= len(pair) + 1; room < 0 {
			out = append(out, labelsCut)
			break
		}
		out = append(out, string(pair))
	}
	return Labels(strings.Join(out, "&"))
}

// Label is a key and a value as Labels have them.
type Label string

// LabelOf is the label of a key and a value.
func LabelOf(key, value string) Label {
	return Label(url.QueryEscape(key) + "=" + url.QueryEscape(value))
}

// Has reports whether a job has a label. sure is false where it may have one that had no room.
func (l Labels) Has(label Label) (has, sure bool) {
	for pair := range strings.SplitSeq(string(l), "&") {
		if pair == string(label) {
			return true, true
		}
	}
	return false, !l.cut()
}

func (l Labels) cut() bool { return l == labelsCut || strings.HasSuffix(string(l), "&"+labelsCut) }

// Map are the labels, and whether they are all.
func (l Labels) Map() (labels map[string]string, all bool) {
	values, err := url.ParseQuery(string(l))
	if err != nil || len(values) == 0 {
		return nil, err == nil
	}
	labels = map[string]string{}
	for k, v := range values {
		labels[k] = v[0]
	}
	if l.cut() {
		delete(labels, labelsCut)
	}
	return labels, !l.cut()
}

// Header is the value of the header, at most MaxFacts bytes: the facts, and after a semicolon
// the labels, each as application/x-www-form-urlencoded.
func (f Facts) Header() string {
	if f.Labels == "" {
		return f.head()
	}
	return f.head() + ";" + string(f.Labels)
}

// head is the header without the labels.
func (f Facts) head() string {
	var b strings.Builder
	for _, field := range f.fields() {
		escaped := url.QueryEscape(*field.value)
		if escaped == "" || len(escaped) > maxFact || b.Len()+len("&")+len(field.name)+len("=")+len(escaped) > maxHead {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(field.name)
		b.WriteByte('=')
		b.WriteString(escaped)
	}
	return b.String()
}

// Moment is a time as facts have it: Unix nanoseconds with base 36.
func Moment(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 36) }

// BegunAt is when the first submission or attempt of the job began; false where none has.
func (f Facts) BegunAt() (t time.Time, begun bool) {
	n, err := strconv.ParseInt(f.Begun, 36, 64)
	return time.Unix(0, n), err == nil && n > 0
}

// IsIndexed reports whether a model's name or an upstream's id is short enough to be one of the
// facts.
func IsIndexed(text string) bool { return len(url.QueryEscape(text)) <= maxFact }

type factField struct {
	name  string
	value *string
}

// fields are those of the head. A long name of a model, or id of a task, comes last, so that
// nothing else is left out for it.
func (f *Facts) fields() [8]factField {
	return [...]factField{
		{"phase", &f.Phase}, {"code", &f.ErrorCode}, {"route", &f.Route}, {"begun", &f.Begun}, {"upstream", &f.Upstream}, {"key", &f.Key},
		{"model", &f.Model}, {"task", &f.UpstreamTask},
	}
}

// ParseFacts reads the value of the header. It leaves out what it cannot read,
// as genbus alone writes it. Its texts are parts of the header's memory.
func ParseFacts(header string) Facts {
	var f Facts
	head, labels, _ := strings.Cut(header, ";")
	f.Labels = Labels(labels)
	fields := f.fields()
	for pair := range strings.SplitSeq(head, "&") {
		name, value, _ := strings.Cut(pair, "=")
		at := slices.IndexFunc(fields[:], func(field factField) bool { return field.name == name })
		if at < 0 {
			continue
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			*fields[at].value = plain
		}
	}
	return f
}
