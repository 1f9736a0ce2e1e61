package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
)

func isForm(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "multipart/form-data"
}

// parseForm parses a create sent as multipart/form-data. It ignores unknown fields.
func parseForm(r *http.Request, body []byte) (videosRequest, error) {
	req := videosRequest{isForm: true}
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return req, fmt.Errorf("read form: %w", err)
	}
	form := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return req, nil
		}
		if err != nil {
			return req, fmt.Errorf("read form: %w", err)
		}
		value, err := io.ReadAll(part) // body is in memory
		if err != nil {
			return req, fmt.Errorf("read form: %w", err)
		}
		if err := req.setField(part, string(value)); err != nil {
			return req, err
		}
	}
}

func (req *videosRequest) setField(part *multipart.Part, value string) error {
	isFile := part.FileName() != ""
	name := part.FormName()
	switch name {
	case "model":
		req.Model = value
	case "prompt":
		req.Prompt = value
	case "seconds":
		req.Seconds = &value
	case "size":
		req.Size = value
	case "metadata":
		req.Metadata = json.RawMessage(value)
	case "input_reference", "input_reference[image_url]", "input_reference[file_id]":
		if value == "" {
			return fmt.Errorf("read form: %s is empty", name)
		}
		req.hasFile = true
		isFile = isFile && name != "input_reference"
	}
	if isFile {
		return fmt.Errorf("read form: %s must not be a file", name)
	}
	return nil
}
