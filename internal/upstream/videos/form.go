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
	sniffed   = 512       // bytes that tell what a field holds, as many as net/http looks at
	maxText   = 256 << 10 // bytes; only a data: URL or an object under input_reference may be longer
)

// TooLargeError says that a form would make a larger body than is taken.
type TooLargeError struct {
	// Limit is the most that is taken, in bytes of JSON.
	Limit int64
}

// Error gives the limit, and what to do.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the form makes more than %d bytes of JSON, in which a file grows by a third; send a URL instead of the file", e.Limit)
}

// FromMultipart makes the canonical JSON body of a client's form, with at most
// limit bytes. Fields become string members, in order. name[key] makes a member
// key of an object; metadata and input_reference stay objects when they are
// JSON. A file under input_reference becomes {"image_url":"data:.."} with its
// name and its media type, which is found out when the client does not say it.
//
// Errors are *body.FieldError, *TooLargeError, or wrap what reading the request
// failed with, such as *http.MaxBytesError: the caller bounds the request, whose
// preamble and part headers do not count here. A form without its last boundary
// is refused unless it is cut within a part's header, which mime/multipart takes
// for the end; only the request's own framing notices that.
func FromMultipart(r *multipart.Reader, limit int64) (raw []byte, err error) {
	f := form{limit: limit, left: limit}
	for {
		part, err := r.NextPart()
		if err == io.EOF { // a wrapped one is a form that ends too early
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

// form is a client's form while it is read.
type form struct {
	limit, left int64 // of the JSON, in bytes
	count       int
	members     []member
}

// member is a member of the body: a value, or an object that grows.
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
	if f.left -= int64(len(p.field) + len(value)); f.left < 0 {
		return &TooLargeError{Limit: f.limit}
	}
	return f.set(p, value)
}

// set stores a value under its name, where there must be none yet.
func (f *form) set(p formPart, value []byte) error {
	i := slices.IndexFunc(f.members, func(m member) bool { return m.name == p.name })
	switch {
	case i < 0 && p.key == "":
		f.members = append(f.members, member{name: p.name, value: value})
		return nil
	case i < 0:
		i = len(f.members)
		f.members = append(f.members, member{name: p.name, object: new(body.Object)})
	case p.key == "", f.members[i].object == nil, f.members[i].object.Has(p.key):
		return body.Errorf(p.field, "is given more than once; send lists as JSON")
	}
	f.members[i].object.Set(p.key, value)
	return nil
}

// body is the JSON object of all members.
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

// text gives the JSON text of a field. To quote a text takes no more memory than a
// few times the limit, whatever its characters.
func (f *form) text(p formPart) ([]byte, error) {
	text, err := f.readText(p)
	size := int64(len(text))
	switch {
	case err != nil:
		return nil, err
	case p.isObject(text):
		return text, nil
	case size > maxText && !isDataURL(string(text[:len("data:")])): // it only began as an object
		return nil, body.Errorf(p.field, "is longer than %d bytes", maxText)
	case !utf8.Valid(text):
		return nil, body.Errorf(p.field, "is not valid UTF-8")
	}
	// A control character takes six bytes in JSON: what does not fit is not written.
	if size += escapes(text) + int64(len(`""`)); size > f.left {
		return nil, &TooLargeError{Limit: f.limit}
	}
	return jsontext.AppendQuote(make([]byte, 0, size), text)
}

// readText reads a field that is no file.
func (f *form) readText(p formPart) ([]byte, error) {
	content := bufio.NewReaderSize(p.content, sniffed)
	first, _ := content.Peek(sniffed) // its error comes again
	longest := f.left
	if !p.mayBeLong(first) {
		longest = min(longest, maxText)
	}
	text, err := io.ReadAll(io.LimitReader(content, longest+1))
	switch {
	case err != nil:
		return nil, unread(p.field, err)
	case int64(len(text)) > f.left:
		return nil, &TooLargeError{Limit: f.limit}
	case int64(len(text)) > longest:
		return nil, body.Errorf(p.field, "is longer than %d bytes", longest)
	}
	return text, nil
}

// escapes is by how much a text grows as a JSON string, in bytes, without the
// quotes around it.
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

// file gives {"image_url":"data:.."}. The file goes through Base64 as it comes
// in.
func (f *form) file(p formPart) ([]byte, error) {
	content := bufio.NewReaderSize(io.LimitReader(p.content, f.left+1), 32<<10)
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
	_ = encoder.Close() // the error is the buffer's, which has none
	_, _ = out.WriteString(`"}`)
	return out.Bytes(), nil
}

// unread says why a form could not be read to its end. The parser's own errors
// are not passed on: they quote the form.
func unread(field string, err error) error {
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case tooLong, network, errors.Is(err, context.Canceled):
		return fmt.Errorf("the form did not arrive completely: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return body.Errorf(field, "ends too early: the form's last boundary is missing")
	default:
		return body.Errorf(field, "cannot be read as multipart/form-data")
	}
}
