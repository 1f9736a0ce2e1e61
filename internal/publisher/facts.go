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
	// MaxFacts bounds the header, in bytes.
	MaxFacts = 512
	// maxFact bounds each escaped fact. Longer ones, possible only for model names and upstream
	// IDs, are left out.
	maxFact = 128
	// labelsCut ends the labels if some did not fit. A label always contains "=", so labelsCut
	// cannot be one.
	labelsCut = "cut"
	// maxHead bounds the length of the facts before the labels.
	maxHead = MaxFacts - len(";"+labelsCut)
)

// Facts are the properties of a job in the subject.HeaderIndex header of its events. They make jobs
// searchable without reading the events. An empty field is unknown.
type Facts struct {
	Phase string // from task.PhaseWord
	Route string
	Model string
	// Upstream and Key name the upstream key of the job's submission.
	Upstream, Key string
	UpstreamTask  string // the upstream's ID for the task
	ErrorCode     string
	Progress      string // of a video in percent; empty for 0
	Begun         string // start of the first submission or attempt, from Moment
	RetryOf       string // ID of the job that this one repeats
	Labels        Labels
}

// Labels are a job's labels as application/x-www-form-urlencoded text, sorted by key.
type Labels string

// FactsOf returns the facts of a job.
func FactsOf(j task.Job) Facts {
	x := j.GetExecution()
	f := Facts{
		Phase: task.PhaseWord(x.GetPhase()), Route: x.GetRoute(), Model: j.GetModel(), Upstream: x.GetUpstream(), Key: x.GetUpstreamKey(),
		ErrorCode: j.GetError().GetCode(), RetryOf: j.GetRetryOf(),
	}
	if begun := x.GetFirstSubmitAt(); begun != nil {
		f.Begun = Moment(begun.AsTime())
	}
	if v, ok := j.(*genbusv1.VideoTask); ok {
		f.UpstreamTask = v.GetUpstreamTaskId()
		if p := v.GetProgress(); p > 0 {
			f.Progress = strconv.Itoa(int(p))
		}
	}
	if labels := j.GetLabels(); len(labels) > 0 {
		f.Labels = labelsOf(labels, maxHead-len(f.head()))
	}
	return f
}

// labelsOf returns as many labels as fit into the remaining bytes.
func labelsOf(labels map[string]string, remaining int) Labels {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		pair := LabelOf(k, labels[k])
		if remaining -= len(pair) + 1; remaining < 0 {
			out = append(out, labelsCut)
			break
		}
		out = append(out, string(pair))
	}
	return Labels(strings.Join(out, "&"))
}

// Label is a key and a value as written in Labels.
type Label string

// LabelOf returns the Label of a key and a value.
func LabelOf(key, value string) Label {
	return Label(url.QueryEscape(key) + "=" + url.QueryEscape(value))
}

// Has reports whether a job has a label. sure is false if the label may have been cut off.
func (l Labels) Has(label Label) (has, sure bool) {
	for pair := range strings.SplitSeq(string(l), "&") {
		if pair == string(label) {
			return true, true
		}
	}
	return false, !l.cut()
}

func (l Labels) cut() bool { return l == labelsCut || strings.HasSuffix(string(l), "&"+labelsCut) }

// Map returns the labels and reports whether they are complete.
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

// Header returns the header's value, which has at most MaxFacts bytes. It consists of the facts
// and, if there are labels, a semicolon and the labels. Both parts are
// application/x-www-form-urlencoded.
func (f Facts) Header() string {
	if f.Labels == "" {
		return f.head()
	}
	return f.head() + ";" + string(f.Labels)
}

// head returns the header without the labels.
func (f Facts) head() string {
	var b strings.Builder
	b.Grow(maxFact) // enough for most
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

// Moment formats a time for facts as Unix nanoseconds in base 36.
func Moment(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 36) }

// BegunAt returns when the job's first submission or attempt started. begun is false if none has
// started.
func (f Facts) BegunAt() (t time.Time, begun bool) {
	n, err := strconv.ParseInt(f.Begun, 36, 64)
	return time.Unix(0, n), err == nil && n > 0
}

// IsIndexed reports whether a model name or an upstream's ID is short enough to be a fact.
func IsIndexed(text string) bool { return len(url.QueryEscape(text)) <= maxFact }

type factField struct {
	name  string
	value *string
}

// fields returns the facts of the head. The model name and the upstream ID come last, so that a
// long one does not displace other facts.
func (f *Facts) fields() [10]factField {
	return [...]factField{
		{"phase", &f.Phase}, {"code", &f.ErrorCode}, {"route", &f.Route}, {"begun", &f.Begun}, {"upstream", &f.Upstream}, {"key", &f.Key},
		{"progress", &f.Progress}, {"retry", &f.RetryOf}, {"model", &f.Model}, {"task", &f.UpstreamTask},
	}
}

// ParseFacts parses the header's value. It skips unreadable parts, because only genbus writes the
// header. The returned strings share the header's memory.
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
