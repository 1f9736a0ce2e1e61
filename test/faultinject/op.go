package faultinject

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// opOf returns the kind of a request from its request line, or "" for a request that never has a
// fault, such as one for a file.
func opOf(r *http.Request) Op {
	path := strings.TrimPrefix(r.URL.Path, "/kling")
	switch {
	case r.Method == http.MethodPost && path == "/v1/chat/completions":
		return OpChat
	case r.Method == http.MethodPost && (path == "/" || path == "/jimeng/"):
		return jimengOp(r.URL.Query().Get("Action"))
	case r.Method == http.MethodPost && creates[path]:
		return OpCreate
	case r.Method == http.MethodGet && polledID(r) != "":
		return OpPoll
	default:
		return ""
	}
}

// creates are the paths of creates without a vendor prefix.
var creates = map[string]bool{
	"/v1/video/generations":   true,
	"/v1/videos":              true,
	"/v1/videos/text2video":   true,
	"/v1/videos/image2video":  true,
	"/v1/videos/text2video/":  true,
	"/v1/videos/image2video/": true,
}

func jimengOp(action string) Op {
	switch action {
	case "CVSync2AsyncSubmitTask":
		return OpCreate
	case "CVSync2AsyncGetResult":
		return OpPoll
	default:
		return ""
	}
}

// polledID returns the ID of the task that a GET reads, or "" if the path has none.
func polledID(r *http.Request) string {
	path := strings.TrimPrefix(r.URL.Path, "/kling")
	for _, prefix := range []string{"/v1/video/generations/", "/v1/videos/text2video/", "/v1/videos/image2video/", "/v1/videos/"} {
		if id, ok := strings.CutPrefix(path, prefix); ok && !strings.Contains(id, "/") && !creates["/v1/videos/"+id] {
			return id
		}
	}
	return ""
}

// taskIDOf returns the task ID in an answer to a create or in a Jimeng poll, in any protocol.
func taskIDOf(body []byte) string {
	var answer struct {
		ID     string `json:"id"`
		TaskID string `json:"task_id"`
		Data   struct {
			TaskID string `json:"task_id"`
		} `json:"data"`
		Result jsontext.Value `json:"result"` // of NestedID
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	for _, id := range []string{answer.Data.TaskID, answer.TaskID, answer.ID, taskIDOf(answer.Result)} {
		if id != "" {
			return id
		}
	}
	return ""
}
