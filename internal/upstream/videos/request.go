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

const (
	asObject = "object"
	asString = "string"
)

// inputReference is the member with the image or video to begin with.
const inputReference = "input_reference"

// request returns the body and media type of a create. They are the same in every submission of a
// job.
func (c *client) request(create upstream.VideoCreate) (raw []byte, contentType string, err error) {
	ref := readReference(create.Body.Member(inputReference))
	// An upstream that expects a string ignores a file: new-api would create, and charge for, a
	// video without the picture.
	if isDataURL(ref.url) && c.opts.InputReference != asString {
		return asForm(create.JobID, create.Body, ref.url)
	}
	d, err := c.json(create.Body, ref)
	return d.Bytes(), "", err
}

// json returns the client's JSON, with the changes that this upstream needs.
func (c *client) json(d body.Document, ref reference) (body.Document, error) {
	switch {
	case c.opts.InputReference == asObject && !ref.object && hasHost(ref.url):
		d = d.With(inputReference, fmt.Appendf(nil, `{"image_url":%s}`, ref.quoted))
	case c.opts.InputReference == asString && isDataURL(ref.url):
		plain, err := plainFile(ref.url)
		if err != nil {
			return d, err
		}
		d = d.WithText(inputReference, plain)
	case c.opts.InputReference == asString && ref.object:
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

// asForm writes a body as multipart/form-data, with the file in the data: URL as one part. Strings,
// numbers and booleans are written as they are, objects and arrays as JSON. null is omitted.
func asForm(jobID string, d body.Document, file string) (out []byte, contentType string, err error) {
	content, err := parseDataURL(file)
	if err != nil {
		return nil, "", fmt.Errorf("%s %w", inputReference, err)
	}
	// With fails on a truncated stored body. Its remaining members would make a form that is paid
	// for.
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
		case name == inputReference:
			err = writeFile(w, content)
		case value[0] == '"':
			err = w.WriteField(name, body.Text(value))
		case value[0] != 'n':
			err = w.WriteField(name, string(value))
		}
		if err != nil {
			return nil, "", err
		}
	}
	// Writing to a buffer cannot fail.
	_ = w.Close()
	return buf.Bytes(), w.FormDataContentType(), nil
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
