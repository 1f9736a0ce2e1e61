package videos

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
)

// Limits of a part's header, in bytes.
const (
	maxFieldName = 128
	maxMediaType = 256 // longer ones are ignored
)

// otherFiles says what works for the files that a form cannot have.
const otherFiles = "send other files as URLs or data: URLs in a JSON body"

// formPart is a part of a form with its header parsed.
type formPart struct {
	field     string // the field's name as received
	name, key string // parsed from field: name[key], or name alone
	isFile    bool
	fileName  string            // of a file; "" if the client gives none
	mediaType string            // "" if the client does not know
	params    map[string]string // of the media type
	content   io.Reader
}

func readPart(part *multipart.Part) (formPart, error) {
	disposition, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || disposition != "form-data" || params["name"] == "" {
		return formPart{}, body.Errorf("", "is a form with a part that has no name")
	}
	p := formPart{field: params["name"], content: part}
	fileName, named := params["filename"]
	p.name, p.key, err = split(p.field)
	switch {
	case err != nil && named && p.name != "":
		return formPart{}, errNoFile(p.field)
	case err != nil:
		return formPart{}, err
	}
	switch strings.ToLower(part.Header.Get("Content-Transfer-Encoding")) {
	case "", "binary", "8bit", "7bit":
	default:
		return formPart{}, body.Errorf(p.field, "has a transfer encoding that forms do not support; send the raw bytes")
	}
	p.setType(part.Header.Get("Content-Type"))
	if named {
		p.isFile, p.fileName = true, baseName(fileName)
	}
	return p, p.checkFile()
}

// setType reads the Content-Type. application/octet-stream means that the client does not know the
// type. Without a file name, a part is a file only if its type is neither text nor JSON.
func (p *formPart) setType(header string) {
	media, params, err := mime.ParseMediaType(header)
	if err != nil || !strings.Contains(media, "/") || len(header) > maxMediaType {
		return
	}
	p.isFile = p.field == inputReference && media != "application/json" && !strings.HasPrefix(media, "text/")
	if media != octetStream {
		p.mediaType, p.params = media, params
	}
}

// mayBeLong reports whether a text begins like a data: URL or an object that may hold one.
func (p *formPart) mayBeLong(first jsontext.Value) bool {
	return p.name == inputReference && (isDataURL(string(first)) || p.field == inputReference && first.Kind() == '{')
}

// isObject reports whether the text is a JSON object that is not converted to a string.
func (p *formPart) isObject(text jsontext.Value) bool {
	return (p.field == "metadata" || p.field == inputReference) && text.Kind() == '{' && text.IsValid()
}

func (p *formPart) checkFile() error {
	switch {
	case p.isFile && p.field != inputReference:
		return errNoFile(p.field)
	case !isFileName(p.fileName):
		return body.Errorf(p.field, "has a file name longer than %d bytes or with control characters", maxFileName)
	}
	return nil
}

func errNoFile(field string) error {
	return body.Errorf(field, "is a file; only %s can be one; %s", inputReference, otherFiles)
}

// dataURL describes the part's file. Its first bytes determine the media type if the client does
// not.
func (p *formPart) dataURL(first []byte) dataURL {
	d := dataURL{mediaType: p.mediaType, params: p.params, name: p.fileName}
	if d.mediaType == "" {
		d.mediaType, d.params, _ = mime.ParseMediaType(http.DetectContentType(first))
	}
	delete(d.params, "name") // the obsolete parameter for a file's name
	return d
}

// split splits "input_reference[image_url]" into name and key. key is empty without brackets.
func split(field string) (name, key string, err error) {
	name, rest, nested := strings.Cut(field, "[")
	key, after, closed := strings.Cut(rest, "]")
	switch {
	case len(field) > maxFieldName:
		err = body.Errorf("", "is a form with a field name of %d bytes; the limit is %d", len(field), maxFieldName)
	case !utf8.ValidString(field) || strings.ContainsFunc(field, unicode.IsControl):
		err = body.Errorf("", "is a form with a field name that is not plain text")
	case !nested && !strings.Contains(name, "]"):
	case name == "" || !closed || strings.ContainsAny(name+key, "[]") || after != "" && after[0] != '[':
		err = body.Errorf(field, "has brackets in a wrong place; name[key] is the form of a member")
	case after != "":
		err = body.Errorf(field, "is nested deeper than one level; send the request as JSON")
	case key == "":
		err = body.Errorf(field, "is a list; send lists as JSON")
	}
	return name, key, err
}
