package hostile

import (
	"fmt"
	"strings"
	"time"
)

// Answer is a hostile upstream's answer to one request.
type Answer struct {
	Name  string
	Steps []Step
	// Reset ends the connection with a TCP reset.
	Reset bool
	// Silent is true if the answer does not reveal what became of the request. No client may treat
	// it as a refusal.
	Silent bool
}

// Step is a part of an answer.
type Step struct {
	Bytes []byte
	// Times is how often Bytes are sent. 0 means once.
	Times int
	// Pause is the wait after each sending.
	Pause time.Duration
}

// Call is the kind of a request to the upstream.
type Call string

// The kinds of requests.
const (
	CallCreate  Call = "create"
	CallPoll    Call = "poll"
	CallChat    Call = "chat"
	CallModels  Call = "models"
	CallContent Call = "content"
)

// Respond returns an answer to a call in a protocol. where holds addresses to which the answer
// directs genbus, for example from Inward. It may be empty.
func Respond(s *Source, call Call, kind Kind, id string, where []string) Answer {
	switch {
	case s.Chance(35):
		a := One(s, wires)
		for a.large && !s.Chance(4) {
			a = One(s, wires)
		}
		return a.make(s, call, where)
	case call == CallContent:
		return contents(s, where)
	case call == CallChat && s.Chance(60):
		return stream(s)
	default:
		name, body := answerBody(s, call, kind, id, where)
		return ok("application/json", name, body)
	}
}

// Good returns a valid answer to a call. For a create, the answer is an accepted task. For a poll,
// it is a completed task whose result is at place.
func Good(call Call, kind Kind, id, place string) Answer {
	return ok("application/json", "good", goodBody(call, kind, id, place))
}

func ok(contentType, name, body string) Answer {
	return Answer{Name: name, Steps: []Step{{Bytes: fmt.Appendf(nil,
		"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", contentType, len(body), body)}}}
}

func goodBody(call Call, kind Kind, id, place string) string {
	done := map[Kind]string{
		Primary: `{"id":%q,"task_id":%[1]q,"object":"video","model":"m","status":"completed","progress":100,"url":%[2]q,"videos":[{"url":%[2]q}],"metadata":{"url":%[2]q}}`,
		Videos:  `{"id":%q,"object":"video","model":"m","status":"completed","progress":100,"created_at":1,"completed_at":2,"seconds":"4","metadata":{"url":%[2]q}}`,
		Kling:   `{"code":0,"message":"","request_id":"r","data":{"task_id":%q,"task_status":"succeed","task_status_msg":"","created_at":1,"updated_at":2,"task_result":{"videos":[{"id":"1","url":%q,"duration":"5"}]}}}`,
		Jimeng:  `{"code":10000,"message":"Success","request_id":"r","status":10000,"data":{"task_id":%q,"status":"done","video_url":%q}}`,
	}
	made := map[Kind]string{
		Primary: `{"id":%q,"task_id":%[1]q,"status":"queued"}`,
		Videos:  `{"id":%q,"object":"video","status":"queued","progress":0}`,
		Kling:   `{"code":0,"message":"","request_id":"r","data":{"task_id":%q,"task_status":"submitted","created_at":1,"updated_at":1}}`,
		Jimeng:  `{"code":10000,"message":"Success","request_id":"r","status":10000,"data":{"task_id":%q}}`,
	}
	switch call {
	case CallCreate:
		return fmt.Sprintf(made[kind], id)
	case CallPoll:
		return fmt.Sprintf(done[kind], id, place)
	case CallModels:
		return `{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"x"}]}`
	default:
		return `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	}
}

// answerBody returns a valid body with one defect.
func answerBody(s *Source, call Call, kind Kind, id string, where []string) (name, body string) {
	good := goodBody(call, kind, id, One(s, append([]string{"http://x.example/1.mp4"}, append(where, Addresses...)...)))
	switch s.N(12) {
	case 0:
		return "cut short", good[:s.N(len(good))]
	case 1:
		b := []byte(good)
		for range 1 + s.N(4) {
			b[s.N(len(b))] = byte(s.N(256))
		}
		return "bytes changed", string(b)
	case 2:
		return "another JSON", One(s, wrongValues)
	case 3:
		return "a deep answer", strings.Replace(good, "{", `{"x":`+deep(1+s.N(20_000))+",", 1)
	case 4:
		return "many members", strings.Replace(good, "{", `{"x":`+manyMembers(3000)+",", 1)
	case 5:
		return "a member twice", strings.Replace(good, "{", `{"status":"failed","id":7,"choices":[],`, 1)
	case 6:
		return "no UTF-8", strings.ReplaceAll(good, "e", "\xff")
	case 7:
		return "texts", strings.Replace(good, "{", `{"message":"`+strings.Repeat("m", 1+s.N(9000))+`","status":"\r\n\u0000\ud83d","request_id":"\n`+strings.Repeat("r", 5000)+`",`, 1)
	default:
		return wrongField(s, good)
	}
}

// wrongField replaces the value of one member with a wrong one.
func wrongField(s *Source, good string) (name, body string) {
	parts := strings.Split(good, `":`)
	i := 1 + s.N(len(parts)-1)
	end := strings.IndexAny(parts[i], ",}]")
	if end < 0 {
		end = len(parts[i])
	}
	parts[i] = One(s, wrongValues) + parts[i][end:]
	return "a wrong field", strings.Join(parts, `":`)
}

func contents(s *Source, where []string) Answer {
	to := One(s, append(where, Addresses...))
	line := strings.NewReplacer("\r", "%0d", "\n", "%0a", "\x00", "%00").Replace(to)
	switch s.N(6) {
	case 0:
		return Answer{Name: "a redirect to " + to, Steps: []Step{{Bytes: fmt.Appendf(nil,
			"HTTP/1.1 %d Found\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", One(s, []int{301, 302, 303, 307, 308}), line)}}}
	case 1:
		return ok("application/json", "JSON that names "+to, fmt.Sprintf(`{"url":%q}`, to))
	case 2:
		return ok("text/html", "a page", "<script>alert(1)</script>")
	case 3:
		return Answer{Name: "ranges", Steps: []Step{{Bytes: fmt.Appendf(nil,
			"HTTP/1.1 206 Partial Content\r\nContent-Type: video/mp4\r\nContent-Range: %s\r\nConnection: close\r\n\r\nxxxx", One(s, []string{"bytes 0-3/2", "bytes 5-1/9", "bytes */*", "bytes 0-9223372036854775807/*", "bytes 18446744073709551615-0/1", "x", "bytes 0-3/9223372036854775808"}))}}}
	case 4:
		return ok(One(s, []string{"video/mp4\xff", "text/html; charset=utf-7", "", "video/mp4; name=\"" + strings.Repeat("x", 5000) + "\""}), "a media type", "xxxx")
	default:
		return Answer{Name: "a length that is wrong", Steps: []Step{{Bytes: []byte("HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 1000\r\nConnection: close\r\n\r\nxxxx")}}}
	}
}
