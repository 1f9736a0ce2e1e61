package content

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// holderMembers lists the members in which servers put a result's URL. Members that are URLs come
// first, followed by members that may contain one.
var holderMembers = []string{
	"url", "video_url", "result_url", "download_url", "content_url", "file_url", "signed_url", "unsigned_urls",
	"data", "metadata", "content", "output", "outputs", "result", "task_result", "video", "videos", "file", "files",
}

// maxHolderDepth limits how deep a URL may be nested, as in
// {"data":{"task_result":{"videos":[{"url"}]}}}.
const maxHolderDepth = 6

func resultURL(raw []byte) string {
	return searchURL(raw, maxHolderDepth)
}

func searchURL(v jsontext.Value, depth int) string {
	if depth < 0 {
		return ""
	}
	switch v.Kind() {
	case '"':
		var s lax.Text
		if json.Unmarshal(v, &s, lax.Options) == nil && upstream.IsResultURL(strings.TrimSpace(string(s))) {
			return strings.TrimSpace(string(s))
		}
	case '[':
		var list lax.List[jsontext.Value]
		if json.Unmarshal(v, &list, lax.Options) == nil {
			return firstURL(list, depth-1)
		}
	case '{':
		var members map[string]jsontext.Value
		if json.Unmarshal(v, &members, lax.Options) != nil {
			return ""
		}
		inOrder := make([]jsontext.Value, 0, len(holderMembers))
		for _, name := range holderMembers {
			inOrder = append(inOrder, members[name])
		}
		return firstURL(inOrder, depth-1)
	}
	return ""
}

func firstURL(values []jsontext.Value, depth int) string {
	for _, v := range values {
		if found := searchURL(v, depth); found != "" {
			return found
		}
	}
	return ""
}
