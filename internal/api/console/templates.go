package console

import (
	"html/template"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/operator/audit"
	"github.com/genbus/genbus/internal/task"
)

// parse returns the templates of all pages by page name, each combined with the layout and the
// shared parts.
func parse(a assets) (map[string]*template.Template, error) {
	shared, err := template.New("").Funcs(functions).Funcs(template.FuncMap{"asset": a.url}).ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/attention.html")
	if err != nil {
		return nil, err
	}
	pages, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	out := map[string]*template.Template{}
	for _, p := range pages {
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(files, p)
		}
		if err != nil {
			return nil, err
		}
		out[strings.TrimSuffix(path.Base(p), ".html")] = t
	}
	return out, nil
}

var functions = template.FuncMap{
	"when":          when,
	"since":         since,
	"clock":         clock,
	"span":          span,
	"statusWord":    task.StatusWord,
	"phaseWord":     task.PhaseWord,
	"words":         words,
	"took":          took,
	"speaker":       speaker,
	"messageText":   body.MessageText,
	"sentence":      sentence,
	"outcome":       audit.Outcome,
	"actions":       audit.Actions,
	"errorCodes":    errorCodes,
	"tone":          tone,
	"enum":          enum,
	"size":          size,
	"percent":       func(part float64) string { return strconv.FormatFloat(part*100, 'f', 1, 64) + " %" },
	"rate":          rate,
	"jobURL":        jobURL,
	"deadLetterURL": deadLetterURL,
	"lookUpText":    task.LookUpText,
	"json":          indented,
	"meaning":       func(code string) errcode.Meaning { return errcode.MeaningOf(errcode.Code(code)) },
	"stakes":        stakesOf,
	"onReplicas":    onReplicas,
	"form":          form,
	"query":         query1,

	"lastMinute": lastMinute, "lastHour": lastHour, "chart": chartOf,

	"trimmed": strings.TrimPrefix,
	"menu":    func() []entry { return menu },
	"list":    func(values ...string) []string { return values },
	"errors":  errcode.Table,
	"codes":   func() []string { return deadLetterCodes },
}

type entry struct{ Nav, Path, Title string }

var menu = []entry{
	{"overview", "", "Overview"},
	{"jobs", "/jobs", "Jobs"},
	{"decisions", "/decisions", "Dead letters"},
	{"routes", "/routes", "Routes"},
	{"upstreams", "/upstreams", "Upstreams"},
	{"tenants", "/tenants", "Tenants"},
	{"replicas", "/replicas", "Replicas"},
	{"streams", "/streams", "Streams"},
	{"audit", "/audit", "Audit"},
	{"try", "/try", "Try"},
}
