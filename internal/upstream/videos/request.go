package videos

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// Values of upstream.Options.InputReference and Body.
const (
	asObject    = "object"
	asString    = "string"
	asJSON      = "json"
	asMultipart = "multipart"
)

// inputReference is the member with the image or video to begin with.
const inputReference = "input_reference"

// request returns the body and media type of a create. They are the same in every submission of a
// job.
func (c *client) request(create upstream.VideoCreate) (raw []byte, contentType string, err error) {
	d, ref, file := create.Body, readReference(create.Body.Member(inputReference)), ""
	// An upstream that expects a string ignores a file: new-api would create, and charge for, a
	// video without the picture.
	if isDataURL(ref.url) && c.opts.InputReference != asString && c.opts.Body != asJSON {
		file = ref.url
	} else if d, err = c.json(d, ref); err != nil {
		return nil, "", err
	}
	if c.opts.Body == asMultipart || c.opts.Body == "" && (file != "" || create.Form && c.passesForms()) {
		return asForm(create.JobID, d, file)
	}
	return d.Bytes(), "", nil
}

// passesForms reports whether a form without a file stays a form. The options Gateway and
// InputReference say how the upstream wants its JSON. In a form, new-api ignores an input_reference
// that is text, and would charge for a video without the picture.
func (c *client) passesForms() bool { return !c.opts.Gateway && c.opts.InputReference == "" }

// json returns the client's JSON, with the changes that this upstream needs.
func (c *client) json(d body.Document, ref reference) (body.Document, error) {
	object := ref.object
	switch c.opts.InputReference {
	case asObject:
		object = object || hasHost(ref.url) || isDataURL(ref.url)
	case asString:
		object = false
	}
	if isDataURL(ref.url) {
		plain, err := plainFile(ref.url)
		if err != nil {
			return d, err
		}
		d = d.WithText(inputReference, plain)
		ref = reference{quoted: d.Member(inputReference)}
	}
	switch {
	case object && !ref.object:
		d = d.With(inputReference, fmt.Appendf(nil, `{"image_url":%s}`, ref.quoted))
	case !object && ref.object:
		d = d.With(inputReference, ref.quoted)
	}
	if seconds := d.Member("seconds"); c.opts.Gateway && jsontext.Value(seconds).Kind() == '0' {
		d = d.With("seconds", fmt.Appendf(nil, `"%s"`, seconds))
	}
	return d, d.Err()
}

// plainFile returns a data: URL with only its media type, because not every upstream accepts a file
// name in it.
func plainFile(file string) (string, error) {
	d, err := parseDataURL(file)
	if err != nil {
		return "", fmt.Errorf("%s %w", inputReference, err)
	}
	plain := "data:" + d.mediaType
	if d.base64 {
		plain += ";base64"
	}
	return plain + "," + d.data, nil
}

// hasHost distinguishes URLs from other strings, such as a file ID.
func hasHost(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && u.Host != ""
}

// reference is the URL in input_reference. It is zero for any other value, such as
// {"file_id":".."}.
type reference struct {
	url    string
	quoted []byte // the URL's JSON text
	object bool   // the URL is in {"image_url":..}
}

// readReference reads the member's JSON text, nil for an absent member.
func readReference(value []byte) reference {
	switch jsontext.Value(value).Kind() {
	case '"':
		return reference{url: body.Text(value), quoted: value}
	case '{':
		quoted := onlyImageURL(value)
		return reference{url: body.Text(quoted), quoted: quoted, object: quoted != nil}
	default:
		return reference{}
	}
}

// onlyImageURL returns the JSON text of image_url if it is a string and the object's only value, so
// that a string or a file can replace the object.
func onlyImageURL(object []byte) (quoted []byte) {
	for name, value := range body.Trusted(object).Members() {
		switch {
		case value[0] == 'n':
		case name != "image_url" || value[0] != '"':
			return nil
		default:
			quoted = value
		}
	}
	return quoted
}

// asForm writes a body as multipart/form-data. file is the data: URL of the file to send as
// input_reference, or empty.
// Strings, numbers and booleans are written as they are, objects and arrays as JSON. But the members
// of an input_reference become parts like input_reference[image_url], as OpenAI's clients write
// them. null is omitted.
func asForm(jobID string, d body.Document, file string) (out []byte, contentType string, err error) {
	var content dataURL
	if file != "" {
		if content, err = parseDataURL(file); err != nil {
			return nil, "", fmt.Errorf("%s %w", inputReference, err)
		}
	}
	// With fails if the stored body is truncated. A form with only the remaining members might be
	// accepted and charged for.
	if err := d.With(inputReference, []byte("null")).Err(); err != nil {
		return nil, "", err
	}
	var buf bytes.Buffer
	buf.Grow(len(d.Bytes())) // Base64 shrinks by more than the part headers add
	w := multipart.NewWriter(&buf)
	if err := w.SetBoundary(boundary(jobID, d.Bytes())); err != nil {
		return nil, "", err
	}
	for name, value := range d.Members() {
		switch {
		case name == inputReference && file != "":
			err = writeFile(w, content)
		case name == inputReference && value[0] == '{':
			for key, inner := range body.Trusted(value).Members() {
				writeField(w, name+"["+key+"]", inner)
			}
		default:
			writeField(w, name, value)
		}
		if err != nil {
			return nil, "", err
		}
	}
	// Writing to a buffer cannot fail.
	_ = w.Close()
	return buf.Bytes(), w.FormDataContentType(), nil
}

// writeField writes a JSON value other than null to a form in memory.
func writeField(w *multipart.Writer, name string, value []byte) {
	switch value[0] {
	case 'n':
	case '"':
		_ = w.WriteField(name, body.Text(value))
	default:
		_ = w.WriteField(name, string(value))
	}
}

func writeFile(w *multipart.Writer, d dataURL) error {
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", multipart.FileContentDisposition(inputReference, d.fileName()))
	header.Set("Content-Type", d.contentType())
	part, err := w.CreatePart(header)
	if err != nil {
		return err
	}
	if err := d.decode(part); err != nil {
		return fmt.Errorf("%s %w", inputReference, err)
	}
	return nil
}

// boundary is the same in every submission of a job. It also depends on the body, because job IDs
// are predictable: a client that can predict the boundary could smuggle other form fields, such as
// another model, into a prompt or a file.
func boundary(jobID string, raw []byte) string {
	h := sha256.New()
	_, _ = h.Write(append([]byte(jobID), 0))
	_, _ = h.Write(raw)
	return "genbus-" + hex.EncodeToString(h.Sum(nil)[:24])
}
