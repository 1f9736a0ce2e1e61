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
	maxMediaType = 256 // longer ones are not believed
)

// formPart is one part of a form, its header read.
type formPart struct {
	field     string // the field's name as it came
	name, key string // what it says: name[key], or name alone
	isFile    bool
	fileName  string            // of a file; "" when the client gives none
	mediaType string            // "" when the client does not know
	params    map[string]string // of the media type
	content   io.Reader
}

// readPart reads a part's header.
func readPart(part *multipart.Part) (formPart, error) {
	disposition, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || disposition != "form-data" || params["name"] == "" {
		return formPart{}, body.Errorf("", "is a form with a part that has no name")
	}
	p := formPart{field: params["name"], content: part}
	if p.name, p.key, err = split(p.field); err != nil {
		return formPart{}, err
	}
	switch strings.ToLower(part.Header.Get("Content-Transfer-Encoding")) {
	case "", "binary", "8bit", "7bit":
	default:
		return formPart{}, body.Errorf(p.field, "has a transfer encoding that forms do not support; send the raw bytes")
	}
	p.setType(part.Header.Get("Content-Type"))
	if fileName, named := params["filename"]; named {
		p.isFile, p.fileName = true, baseName(fileName)
	}
	return p, p.checkFile()
}

// setType reads the Content-Type. Clients that do not know say
// application/octet-stream. Without a file name, only what is neither a text nor
// JSON is a file.
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

// mayBeLong reports whether a text may be a data: URL, or an object that holds
// one, by how it begins.
func (p *formPart) mayBeLong(first jsontext.Value) bool {
	return p.name == inputReference && (isDataURL(string(first)) || p.field == inputReference && first.Kind() == '{')
}

// isObject reports whether the text is an object and stays one.
func (p *formPart) isObject(text jsontext.Value) bool {
	return (p.field == "metadata" || p.field == inputReference) && text.Kind() == '{' && text.IsValid()
}

func (p *formPart) checkFile() error {
	switch {
	case p.isFile && p.field != inputReference:
		return body.Errorf(p.field, "is a file; only %s can be one", inputReference)
	case !isFileName(p.fileName):
		return body.Errorf(p.field, "has a file name longer than %d bytes or with control characters", maxFileName)
	}
	return nil
}

// dataURL describes the part's file, whose first bytes tell what it is when the
// client does not.
func (p *formPart) dataURL(first []byte) dataURL {
	d := dataURL{mediaType: p.mediaType, params: p.params, name: p.fileName}
	if d.mediaType == "" {
		d.mediaType, d.params, _ = mime.ParseMediaType(http.DetectContentType(first))
	}
	delete(d.params, "name") // the old way to name a file
	return d
}

// split takes "input_reference[image_url]" apart; key is empty without brackets.
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
