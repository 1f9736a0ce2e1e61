package hostile

import (
	"fmt"
	"strings"
)

// Note is a hostile NATS message.
type Note struct {
	Name    string
	Subject string
	// Header may be nil. Keys and values contain no CR or LF, and keys contain no colon, so a
	// client can send them unchanged.
	Header map[string][]string
	Data   []byte
}

// Notes returns a message on a subject that begins with prefix, such as "genbus.request" or
// "genbus.call".
func Notes(s *Source, t Target, prefix string) Note {
	kind, word := One(s, Kinds), "video"
	if kind == Chat {
		word = "chat"
	}
	n := Note{Subject: prefix + "." + word + ".default", Header: map[string][]string{}}
	switch s.N(10) {
	case 0, 1, 2, 3:
		in := JSON(s, kind, t)
		n.Name, n.Data = "JSON: "+in.Name, in.Bytes
		n.Header["content-type"] = []string{"application/json"}
	case 4:
		_, in := WrongMember(t, s.N(WrongMembers()))
		n.Name, n.Data = "JSON: "+in.Name, in.Bytes
		n.Header["Content-Type"] = []string{"application/json; charset=utf-8"}
	case 5, 6:
		n.Name, n.Data = "fields", requestWire(s, t, word)
	case 7:
		n.Name, n.Data = "wire", Wire(s, requestWire(s, t, word))
	case 8:
		n.Name, n.Data = "any bytes", s.Bytes(s.N(300))
	default:
		n.Name, n.Data = "a tenant", []byte(render(kind.good(t)))
		n.Header["content-type"] = []string{"application/json"}
		n.Subject = prefix + "." + word + "." + One(s, tenants)
	}
	if s.Chance(50) {
		n.Name += ", headers"
		n.headers(s)
	}
	return n
}

func requestWire(s *Source, t Target, word string) []byte {
	if word == "chat" {
		return ChatWire(s, t)
	}
	return VideoWire(s, t)
}

// tenants are last tokens of subjects that are not valid tenant names.
var tenants = []string{
	"_invalid", "a%b", "ключ", "\xc3\xa9", "a:b", "a/b", "..", "DEFAULT", strings.Repeat("t", 65), strings.Repeat("t", 2000), "$SYS", "a\x01b", "\u202e", "{}", "a,b", "a@b",
}

// headers adds headers that mean something to genbus, JetStream or clients.
func (n *Note) headers(s *Source) {
	for range 1 + s.N(4) {
		h := One(s, noteHeaders)
		value := One(s, h.values)
		if s.Chance(25) {
			value = HeaderText(s)
		}
		n.Header[h.name] = append(n.Header[h.name], value)
	}
}

var noteHeaders = []header{
	{"content-type", []string{"application/json", "application/protobuf", "text/html", "", "application/json;;", "application/x-protobuf; a=b", strings.Repeat("a", 5000)}},
	{"Content-Type", []string{"application/json", "text/plain"}},
	{"genbus-request-id", headers[0].values}, {"Genbus-Request-Id", []string{"other"}}, {"genbus-labels", headers[1].values},
	{"genbus-job-id", []string{"video_aaaaaaaaaaaaaaaaaaaaaaaaaa"}}, {"genbus-status", []string{"completed"}}, {"genbus-error-code", []string{"internal"}},
	{"ce-id", []string{"x"}}, {"ce-type", []string{"genbus.video.task.completed.v1"}}, {"ce-source", []string{"x"}},
	{"traceparent", []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x"}}, {"tracestate", []string{strings.Repeat("a=b,", 5000), "=\xff"}}, {"baggage", []string{"a=b"}},
	{"Nats-Service-Error", []string{"x"}}, {"Nats-Service-Error-Code", []string{"200"}}, {"Status", []string{"503", "404 No Messages", "100 Idle Heartbeat", "409 Consumer Deleted"}}, {"Description", []string{"x"}},
	{"Nats-Expected-Stream", []string{"OTHER"}}, {"Nats-Expected-Last-Sequence", []string{"1", "-1", "x"}}, {"Nats-Expected-Last-Msg-Id", []string{"x"}}, {"Nats-Expected-Last-Subject-Sequence", []string{"99"}},
	{"Nats-Rollup", []string{"all", "sub"}}, {"Nats-TTL", []string{"1s", "never", "-1"}}, {"Nats-Schedule", []string{"@every 1s"}}, {"Nats-Schedule-Target", []string{"genbus.task.video.default.x"}},
	{"Nats-Batch-Id", []string{"b"}}, {"Nats-Batch-Sequence", []string{"1", "2"}}, {"Nats-Batch-Commit", []string{"1"}}, {"Nats-Incr", []string{"+1"}}, {"Nats-Stream", []string{"GENBUS_TASKS"}}, {"Nats-Sequence", []string{"1"}},
	{"Nats-Marker-Reason", []string{"Purge"}}, {"Nats-Stalled-Consumer", []string{"x"}}, {"Nats-Consumer-Stalled", []string{"genbus.task.video.default.x"}},
}

// NATSLines returns hostile bytes of a NATS client connection, with messages on subjects that begin
// with prefix.
func NATSLines(s *Source, t Target, prefix string) Input {
	l := One(s, natsLines)
	greeting := `CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1}` + "\r\n"
	subject := prefix + ".video.default"
	text := strings.ReplaceAll(l.text, "SUBJECT", subject)
	if l.hpub != "" {
		data := render(Primary.good(t))
		text = fmt.Sprintf("HPUB %s _INBOX.hostile %d %d\r\n%s%s\r\n", subject, len(l.hpub), len(l.hpub)+len(data), l.hpub, data)
	}
	b := []byte(text + "PING\r\n")
	if s.Chance(50) {
		for range 1 + s.N(3) {
			b[s.N(len(b))] = byte(s.N(256))
		}
	}
	return Input{Name: "NATS: " + l.name, Bytes: append([]byte(greeting), b...), Cut: true}
}

var natsLines = []struct {
	name, text string
	hpub       string // header block of a message, sent instead of text
}{
	{"nothing", "", ""},
	{"no operation", "XYZ\r\n", ""},
	{"a negative size", "PUB SUBJECT -1\r\n\r\n", ""},
	{"a huge size", "PUB SUBJECT 999999999999\r\nx\r\n", ""},
	{"a size that is too short", "PUB SUBJECT 1\r\nxxxx\r\n", ""},
	{"no size", "PUB SUBJECT\r\n", ""},
	{"a header longer than the message", "HPUB SUBJECT 10 5\r\nNATS/1.0\r\n\r\n", ""},
	{"a long line", "PUB " + strings.Repeat("a", 5000) + " 1\r\nx\r\n", ""},
	{"wildcards", "PUB genbus.request.*.> 1\r\nx\r\n", ""},
	{"empty tokens", "PUB genbus..call. 1\r\nx\r\n", ""},
	{"NUL in a subject", "PUB genbus.call.video.a\x00b 1\r\nx\r\n", ""},
	{"no header version", "", "X: y\r\n\r\n"},
	{"another header version", "", "NATS/9.9\r\nX: y\r\n\r\n"},
	{"a header without an end", "", "NATS/1.0\r\nX: y\r\n"},
	{"a header without a colon", "", "NATS/1.0\r\nno colon\r\n\r\n"},
	{"a header without a name", "", "NATS/1.0\r\n: y\r\n\r\n"},
	{"a folded header", "", "NATS/1.0\r\nX: a\r\n b\r\n\r\n"},
	{"a name of odd characters", "", "NATS/1.0\r\nX\x00\xff: a\r\ncontent-type : application/json\r\n\r\n"},
	{"a bare CR", "", "NATS/1.0\r\nX: a\rb\r\n\r\n"},
	{"a status", "", "NATS/1.0 503 No Responders\r\n\r\n"},
	{"a broken status", "", "NATS/1.0 \xff\xff\r\nStatus: x\r\n\r\n"},
	{"many headers", "", "NATS/1.0\r\n" + strings.Repeat("X: y\r\n", 5000) + "\r\n"},
	{"a long header", "", "NATS/1.0\r\ngenbus-labels: " + strings.Repeat("k=v,", 20_000) + "\r\ncontent-type: application/json\r\n\r\n"},
	{"JSON in a broken header", "", "NATS/1.0\ncontent-type: application/json\n\n"},
}
