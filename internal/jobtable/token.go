package jobtable

import (
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/genbus/genbus/internal/subject"
)

// ErrPageToken reports a page token that is malformed or belongs to another list.
var ErrPageToken = errors.New("the page token does not belong to this list")

type pageToken struct {
	Created int64  `json:"c"`
	ID      string `json:"i"`
}

func formatToken(r Row) string {
	data, err := json.Marshal(pageToken{Created: r.Created, ID: r.ID})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func parseToken(token string) (Row, error) {
	if token == "" {
		return Row{}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return Row{}, ErrPageToken
	}
	var t pageToken
	if err := json.Unmarshal(data, &t); err != nil || subject.CheckToken(t.ID) != nil {
		return Row{}, ErrPageToken
	}
	return Row{Created: t.Created, ID: t.ID}, nil
}
