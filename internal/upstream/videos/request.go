package videos

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// Values of upstream.Options.InputReference.
const (
	asObject = "object"
	asString = "string"
)

// inputReference is the member that holds the image or video to begin with.
const inputReference = "input_reference"

// request gives the bytes and the media type of a create. They are the same
// whenever the same job is submitted.
func (c *client) request(create upstream.VideoCreate) (raw []byte, contentType string, err error) {
	ref := readReference(body.Member(create.Body, inputReference))
	// An upstream that wants a string does not look for a file: new-api's create
	// would begin without the picture, and be paid for all the same.
	if isDataURL(ref.url) && c.opts.InputReference != asString {
		return asForm(create.JobID, create.Body, ref.url)
	}
	raw, err = c.json(create.Body, ref)
	return raw, "", err
}

// json gives the client's JSON, with what this upstream wants to read
// differently rewritten in its place.
func (c *client) json(raw []byte, ref reference) ([]byte, error) {
	var err error
	switch {
	case c.opts.InputReference == asObject && !ref.object && hasHost(ref.url):
		raw, err = body.SetMember(raw, inputReference, fmt.Appendf(nil, `{"image_url":%s}`, ref.quoted))
	case c.opts.InputReference == asString && isDataURL(ref.url):
		raw, err = withPlainFile(raw, ref.url)
	case c.opts.InputReference == asString && ref.object:
		raw, err = body.SetMember(raw, inputReference, ref.quoted)
	}
	if err != nil || !c.opts.Gateway {
		return raw, err
	}
	if seconds := body.Member(raw, "seconds"); seconds != nil && jsontext.Value(seconds).Kind() == '0' {
		return body.SetMember(raw, "seconds", fmt.Appendf(nil, `"%s"`, seconds))
	}
	return raw, nil
}

// withPlainFile writes a data: URL with its media type alone: not every reader
// takes a file's name in it.
func withPlainFile(raw []byte, file string) ([]byte, error) {
	d, err := parseDataURL(file)
	if err != nil {
		return nil, fmt.Errorf("%s %w", inputReference, err)
	}
	plain := "data:" + d.mediaType
	if d.base64 {
		plain += ";base64"
	}
	quoted, err := jsontext.AppendQuote(nil, plain+","+d.data)
	if err != nil {
		return nil, fmt.Errorf("%s is not valid UTF-8", inputReference)
	}
	return body.SetMember(raw, inputReference, quoted)
}

// hasHost tells a URL from the other things that stand in a string, such as the
// id of a file.
func hasHost(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && u.Host != ""
}

// reference is what the member input_reference says when it is a URL. It is
// zero for everything else, such as {"file_id":".."}.
type reference struct {
	url    string
	quoted []byte // the URL's JSON text
	object bool   // it is in {"image_url":..}
}

// readReference reads the member's JSON text; nil is an absent member.
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

// onlyImageURL gives the JSON text of image_url when it is a string and the
// object says nothing else, so that a string or a file can stand for it all.
func onlyImageURL(object []byte) (quoted []byte) {
	err := body.EachMember(object, func(name string, value []byte) error {
		switch {
		case value[0] == 'n':
			return nil
		case name != "image_url" || value[0] != '"':
			return errOtherMember
		}
		quoted = value
		return nil
	})
	if err != nil {
		return nil
	}
	return quoted
}

// asForm writes the members of a body as multipart/form-data, with the file that
// the data: URL holds as a part of its own: strings as they are, numbers and
// booleans as written, objects and arrays as JSON. A null is left out.
func asForm(jobID string, raw []byte, file string) (out []byte, contentType string, err error) {
	d, err := parseDataURL(file)
	if err != nil {
		return nil, "", fmt.Errorf("%s %w", inputReference, err)
	}
	var buf bytes.Buffer
	buf.Grow(len(raw)) // Base64 takes more than the parts' headers add
	w := multipart.NewWriter(&buf)
	if err := w.SetBoundary(boundary(jobID, raw)); err != nil {
		return nil, "", err
	}
	err = body.EachMember(raw, func(name string, value []byte) error {
		switch {
		case name == inputReference:
			return writeFile(w, d)
		case value[0] == '"':
			return w.WriteField(name, body.Text(value))
		case value[0] == 'n':
			return nil
		}
		return w.WriteField(name, string(value))
	})
	if err != nil {
		return nil, "", err
	}
	// The error is the buffer's, which has none.
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

// boundary is the same in every submission of a job. It depends on the body as
// well: job ids can be foreseen, and a client that foresees the boundary can write
// other form fields, such as another model, into a prompt or a file.
func boundary(jobID string, raw []byte) string {
	h := sha256.New()
	_, _ = h.Write(append([]byte(jobID), 0))
	_, _ = h.Write(raw)
	return "genbus-" + hex.EncodeToString(h.Sum(nil)[:24])
}

// errOtherMember ends a walk through an object early.
var errOtherMember = errors.New("the object holds something else")
