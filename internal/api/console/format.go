package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/plural"
)

// when formats a time. The browser computes its age, because a page that contained ages would
// change every second.
func when(t *timestamppb.Timestamp) template.HTML {
	if t == nil || !t.IsValid() {
		return "–"
	}
	at := t.AsTime().UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, at.Format(time.RFC3339Nano), at.Format("2006-01-02 15:04:05"))) //nolint:gosec // digits only
}

// since formats a time whose age the browser shows, without "ago".
func since(t *timestamppb.Timestamp) template.HTML {
	return template.HTML(strings.Replace(string(when(t)), "<time", `<time class="since"`, 1)) //nolint:gosec // from when
}

// clock formats the time of day with milliseconds. It is for events, whose order matters.
func clock(t *timestamppb.Timestamp) template.HTML {
	if t == nil || !t.IsValid() {
		return "–"
	}
	at := t.AsTime().UTC()
	return template.HTML(fmt.Sprintf(`<time class="clock" datetime="%s" title="%s UTC">%s</time>`, at.Format(time.RFC3339Nano), at.Format("2006-01-02 15:04:05"), at.Format("15:04:05.000"))) //nolint:gosec // digits only
}

// span formats a duration like the browser does. Longer durations are rounded more coarsely.
func span(d *durationpb.Duration) string {
	if d == nil {
		return "–"
	}
	return spanOf(d.AsDuration())
}

const day = 24 * time.Hour

func spanOf(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	}
}

// tone returns the CSS class of a status.
func tone(s genbusv1.JobStatus) string {
	switch s {
	case genbusv1.JobStatus_JOB_STATUS_COMPLETED:
		return "good"
	case genbusv1.JobStatus_JOB_STATUS_FAILED:
		return "bad"
	case genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS:
		return "busy"
	default:
		return "idle"
	}
}

// words replaces the underscores of a status or phase word.
func words(word string) string { return strings.ReplaceAll(word, "_", " ") }

// enum returns the name of an enum value as lower-case words, without its prefix.
func enum(v fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(v.String(), prefix), "_", " "))
}

func size(v any) string {
	n, ok := v.(int64)
	if u, unsigned := v.(uint64); unsigned {
		n, ok = int64(u), true
	}
	switch {
	case !ok:
		return "?"
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
}

// rate returns the share of calls that succeeded.
func rate(calls, failed uint64) string {
	if calls == 0 {
		return "no calls"
	}
	return fmt.Sprintf("%.1f %% of %d succeeded", 100*float64(calls-min(failed, calls))/float64(calls), calls)
}

// form returns the singular or plural form of a word for a count n, which may have any integer
// type.
func form(n any, one, many string) string {
	return plural.Form(reflect.ValueOf(n).Convert(reflect.TypeFor[int64]()).Int(), one, many)
}

// indented formats a message as JSON. It indents the JSON itself because protojson deliberately
// varies its whitespace, and an unchanged page would seem to change.
func indented(m proto.Message) string {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return "" // unreachable: the message came as Protobuf
	}
	return reindent(raw)
}

func onReplicas(all []*genbusv1.UpstreamOnReplica, name string) (out []*genbusv1.UpstreamOnReplica) {
	for _, u := range all {
		if u.GetUpstream().GetName() == name {
			out = append(out, u)
		}
	}
	return out
}

func ended(s genbusv1.JobStatus) bool {
	return s == genbusv1.JobStatus_JOB_STATUS_COMPLETED || s == genbusv1.JobStatus_JOB_STATUS_FAILED || s == genbusv1.JobStatus_JOB_STATUS_CANCELLED
}

// reindent formats JSON with fixed indentation. It returns invalid JSON unchanged.
func reindent(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
