package contracttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream/sse"
)

// Answer is a complete HTTP answer and its request.
type Answer struct {
	Method, Path string // Path has no query
	Status       int
	Header       http.Header
	Body         []byte
}

// CheckAnswer fails if the document does not allow the answer's status, headers, content type or
// body.
func (d *Document) CheckAnswer(a Answer) error {
	code := errcode.Code(a.Header.Get("Genbus-Error-Code"))
	if code == errcode.NotFound || code == errcode.MethodNotAllowed {
		return d.checkUnmatched(a)
	}
	template, method, ok := d.operation(a.Method, a.Path)
	if !ok {
		return fmt.Errorf("the document has no %s %s", a.Method, a.Path)
	}
	place := []string{"paths", template, method, "responses", strconv.Itoa(a.Status)}
	if d.Find(place...) == nil {
		place[4] = "default"
	}
	answer, ok := d.Find(place...).(map[string]any)
	if !ok {
		return fmt.Errorf("%s %s: the document has no status %d", method, template, a.Status)
	}
	err := errors.Join(d.checkHeaders(a, answer, place), d.checkBody(a, answer, place))
	if err != nil {
		return fmt.Errorf("%s %s, status %d: %w", method, template, a.Status, err)
	}
	return nil
}

// checkUnmatched checks an error that every path may return. Vendor paths use the vendor's
// envelope.
func (d *Document) checkUnmatched(a Answer) error {
	if a.Method == http.MethodHead {
		return nil
	}
	for _, envelope := range []string{"KlingRefusal", "JimengRefusal"} {
		if d.Check(a.Body, "components", "schemas", envelope) == nil {
			return nil
		}
	}
	return d.Check(a.Body, "components", "schemas", "Error")
}

// operation finds the template of a path. HEAD falls back to GET.
func (d *Document) operation(method, path string) (template, found string, ok bool) {
	paths, _ := d.Find("paths").(map[string]any)
	for _, template := range slices.Sorted(maps.Keys(paths)) { // literal segments before parameters
		if !Fits(template, path) {
			continue
		}
		for _, m := range []string{method, map[string]string{http.MethodHead: http.MethodGet}[method]} {
			if m = strings.ToLower(m); m != "" && d.Find("paths", template, m) != nil {
				return template, m, true
			}
		}
	}
	return "", "", false
}

// Fits reports whether a path matches a template. A {model} may contain slashes.
func Fits(template, path string) bool {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	for i, segment := range want {
		switch {
		case segment == "{model}":
			return len(have) > i
		case i >= len(have), !strings.HasPrefix(segment, "{") && segment != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}

// mustDocument lists the headers that must be documented if an answer has them.
var mustDocument = []string{
	"Accept-Ranges", "Content-Disposition", "Content-Range", "Content-Security-Policy", "Etag", "Genbus-Error-Code", "Genbus-Job-Id", "Genbus-Notice", "Last-Modified",
	"Location", "Openai-Poll-After-Ms", "Preference-Applied", "Retry-After", "Www-Authenticate", "X-Request-Id", "X-Should-Retry",
}

func (d *Document) checkHeaders(a Answer, answer map[string]any, place []string) error {
	headers, _ := answer["headers"].(map[string]any)
	var wrong []error
	for _, name := range mustDocument {
		if _, documented := headers[name]; !documented && a.Header.Get(name) != "" {
			wrong = append(wrong, fmt.Errorf("the document has no header %s", name))
		}
	}
	for name := range headers {
		header, _ := d.Find(append(slices.Clone(place), "headers", name)...).(map[string]any)
		value := a.Header.Get(name)
		if value == "" && header["required"] == true {
			wrong = append(wrong, fmt.Errorf("there is no header %s", name))
		}
		schema, _ := header["schema"].(map[string]any)
		if enum, _ := schema["enum"].([]any); value != "" && enum != nil && !slices.Contains(enum, any(value)) {
			wrong = append(wrong, fmt.Errorf("the header %s may not be %q", name, value))
		}
	}
	return errors.Join(wrong...)
}

func (d *Document) checkBody(a Answer, answer map[string]any, place []string) error {
	if a.Method == http.MethodHead || len(a.Body) == 0 {
		return nil
	}
	content, _ := answer["content"].(map[string]any)
	media, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if content["*/*"] != nil {
		return nil // the answer is a file
	}
	if content[media] == nil {
		return fmt.Errorf("the document has no content of type %s", media)
	}
	place = append(slices.Clone(place), "content", media)
	switch media {
	case "application/json":
		return d.Check(a.Body, append(place, "schema")...)
	case "text/event-stream":
		return d.checkEvents(a.Body, place)
	}
	return nil
}

// checkEvents checks each event of a stream against the schema of its name.
func (d *Document) checkEvents(stream []byte, place []string) error {
	names, _ := d.Find(append(slices.Clone(place), "x-genbus-events")...).(map[string]any)
	r := sse.NewReader(bytes.NewReader(stream), len(stream)+1)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) || err == nil && e.Unterminated {
			return nil // a stream may be cut off
		}
		if err != nil {
			return err
		}
		name := e.Type
		if name == "" {
			name = "message"
		}
		if names[name] == nil {
			return fmt.Errorf("the document has no event %s", name)
		}
		if string(e.Data) == "[DONE]" {
			continue
		}
		if err := d.Check(e.Data, append(slices.Clone(place), "x-genbus-events", name)...); err != nil {
			return err
		}
	}
}
