package videos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
)

// Limits of a client's form.
const (
	maxFields = 64
	sniffed   = 512       // bytes for detecting a field's type, as in net/http
	maxText   = 256 << 10 // bytes; only a data: URL or an object in input_reference may be longer
)

// TooLargeError says that a form's JSON body would exceed the limit.
type TooLargeError struct {
	// Limit is the limit in bytes of JSON.
	Limit int64
}

// Error returns the limit and how to stay below it.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the form makes more than %d bytes of JSON, in which a file grows by a third; send a URL instead of the file", e.Limit)
}

// FromMultipart converts a client's form to the canonical JSON body of at most limit bytes. Fields
// become string members, in order. name[key] becomes the member key of an object. metadata and
// input_reference stay objects if they are JSON objects. A file in input_reference becomes
// {"image_url":"data:.."} with its name and media type, which is detected if the client does not
// state it.
//
// Errors are *body.FieldError, *TooLargeError, or wrap the error of reading the request, such as
// *http.MaxBytesError. The caller must bound the request, because its preamble and part headers do
// not count here. A form without its last boundary is refused, unless it is truncated within a
// part's header: mime/multipart treats such a form as complete, and only the request's own framing
// can reveal that it is not.
func FromMultipart(r *multipart.Reader, limit int64) (raw []byte, err error) {
	f := form{limit: limit, remaining: limit}
	for {
		part, err := r.NextPart()
		if err == io.EOF { // a wrapped io.EOF means a truncated form
			return f.body()
		}
		if err != nil {
			return nil, unread("", err)
		}
		if err := f.add(part); err != nil {
			return nil, err
		}
	}
}

type form struct {
	limit, remaining int64 // of the JSON, in bytes
	count            int
	members          []member
}

// member is a member of the body: a value, or an object under construction.
type member struct {
	name   string
	value  []byte
	object *body.Object
}

func (f *form) add(part *multipart.Part) error {
	if f.count++; f.count > maxFields {
		return body.Errorf("", "is a form of more than %d fields", maxFields)
	}
	p, err := readPart(part)
	if err != nil {
		return err
	}
	read := f.text
	if p.isFile {
		read = f.file
	}
	value, err := read(p)
	if err != nil {
		return err
	}
	if f.remaining -= int64(len(p.field) + len(value)); f.remaining < 0 {
		return &TooLargeError{Limit: f.limit}
	}
	return f.set(p, value)
}

// set stores a value under its name, which must be unused.
func (f *form) set(p formPart, value []byte) error {
	i := slices.IndexFunc(f.members, func(m member) bool { return m.name == p.name })
	switch {
	case i < 0 && p.key == "":
		f.members = append(f.members, member{name: p.name, value: value})
		return nil
	case i < 0:
		i = len(f.members)
		f.members = append(f.members, member{name: p.name, object: new(body.Object)})
	case p.isFile:
		return body.Errorf(p.field, "is given more than once; a form has one file; %s", otherFiles)
	case p.key == "", f.members[i].object == nil, f.members[i].object.Has(p.key):
		return body.Errorf(p.field, "is given more than once; send lists as JSON")
	}
	f.members[i].object.Set(p.key, value)
	return nil
}

func (f *form) body() ([]byte, error) {
	var o body.Object
	for _, m := range f.members {
		if m.object != nil {
			m.value = m.object.JSON()
		}
		o.Set(m.name, m.value)
	}
	raw := o.JSON()
	if int64(len(raw)) > f.limit {
		return nil, &TooLargeError{Limit: f.limit}
	}
	return raw, nil
}

// text returns the JSON of a field. Whatever characters the field contains, quoting it takes no
// more memory than a few times the limit.
func (f *form) text(p formPart) ([]byte, error) {
	text, err := f.readText(p)
	size := int64(len(text))
	switch {
	case err != nil:
		return nil, err
	case p.isObject(text):
		return text, nil
	case size > maxText && !isDataURL(string(text[:len("data:")])): // it only began like an object
		return nil, body.Errorf(p.field, "is longer than %d bytes", maxText)
	case !utf8.Valid(text):
		return nil, body.Errorf(p.field, "is not valid UTF-8")
	}
	// A control character takes six bytes in JSON, so check the size before quoting.
	if size += escapes(text) + int64(len(`""`)); size > f.remaining {
		return nil, &TooLargeError{Limit: f.limit}
	}
	return jsontext.AppendQuote(make([]byte, 0, size), text)
}

func (f *form) readText(p formPart) ([]byte, error) {
	content := bufio.NewReaderSize(p.content, sniffed)
	first, _ := content.Peek(sniffed) // ReadAll will return the same error
	longest := f.remaining
	if !p.mayBeLong(first) {
		longest = min(longest, maxText)
	}
	text, err := io.ReadAll(io.LimitReader(content, longest+1))
	switch {
	case err != nil:
		return nil, unread(p.field, err)
	case int64(len(text)) > f.remaining:
		return nil, &TooLargeError{Limit: f.limit}
	case int64(len(text)) > longest:
		return nil, body.Errorf(p.field, "is longer than %d bytes", longest)
	}
	return text, nil
}

// escapes returns by how many bytes a text grows as a JSON string, not counting its quotes.
func escapes(text []byte) (more int64) {
	for _, c := range text {
		switch {
		case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
			more += int64(len(`\n`) - 1)
		case c < ' ':
			more += int64(len(`\u0001`) - 1)
		}
	}
	return more
}

// file returns {"image_url":"data:.."}, encoding the file while it is read.
func (f *form) file(p formPart) ([]byte, error) {
	content := bufio.NewReaderSize(io.LimitReader(p.content, f.remaining+1), 32<<10)
	first, _ := content.Peek(sniffed)
	d := p.dataURL(first)
	var out bytes.Buffer
	_, _ = out.WriteString(`{"image_url":"` + d.head())
	encoder := base64.NewEncoder(base64.StdEncoding, &out)
	n, err := io.Copy(encoder, content)
	if err != nil {
		return nil, unread(p.field, err)
	}
	if n == 0 {
		return nil, body.Errorf(p.field, "is an empty file")
	}
	_ = encoder.Close() // writing to a buffer cannot fail
	_, _ = out.WriteString(`"}`)
	return out.Bytes(), nil
}

// unread returns why a form could not be read completely. It does not pass on the parser's errors,
// which quote the form.
func unread(field string, err error) error {
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case tooLong, network, errors.Is(err, context.Canceled):
		return fmt.Errorf("the form cannot be read: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return body.Errorf(field, "ends too early: the form's last boundary is missing")
	default:
		return body.Errorf(field, "cannot be read as multipart/form-data")
	}
}
