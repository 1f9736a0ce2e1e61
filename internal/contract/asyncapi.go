package contract

import (
	"strings"

	"github.com/genbus/genbus/internal/subject"
)

// message is a payload in the document. A name with the suffix JSON stands for the same message in
// JSON.
type message struct {
	summary string
	// headers names one of headerSets.
	headers string
	// payload lists the possible schemas.
	payload []string
}

// payloads contains all messages by name.
var payloads = map[string]message{
	"VideoRequest": {"Requests one video task.", "RequestHeaders", []string{"genbus.v1.VideoRequest"}},
	"VideoRequestJSON": {
		"Requests one video task, with the HTTP body of the model's protocol.", "JSONRequestHeaders",
		[]string{"GenerationRequest", "VideoObjectRequest", "KlingRequest", "JimengRequest"},
	},
	"ChatRequest":        {"Requests one chat completion.", "RequestHeaders", []string{"genbus.v1.ChatRequest"}},
	"ChatRequestJSON":    {"Requests one chat completion, with the HTTP body.", "JSONRequestHeaders", []string{"ChatCompletionRequest"}},
	"VideoAccepted":      {"The accepted task.", "ReplyHeaders", []string{"genbus.v1.CreateVideoTaskResponse"}},
	"VideoAcceptedJSON":  {"The accepted task.", "ReplyHeaders", []string{"GenerationCreated"}},
	"ChatAccepted":       {"The accepted chat.", "ReplyHeaders", []string{"genbus.v1.SubmitChatCompletionResponse"}},
	"ChatAcceptedJSON":   {"The accepted chat.", "ReplyHeaders", []string{"ChatJob"}},
	"Refused":            {"The error.", "ErrorHeaders", []string{"genbus.v1.TaskError"}},
	"RefusedJSON":        {"The error.", "ErrorHeaders", []string{"Error"}},
	"VideoGet":           {"Names a task.", "RequestHeaders", []string{"genbus.v1.GetVideoTaskRequest"}},
	"VideoGetJSON":       {"Names a task.", "QuestionHeaders", []string{"genbus.v1.GetVideoTaskRequest"}},
	"VideoState":         {"The current state of the task.", "ReplyHeaders", []string{"genbus.v1.GetVideoTaskResponse"}},
	"VideoStateJSON":     {"The current state of the task.", "ReplyHeaders", []string{"Generation"}},
	"VideoCancel":        {"Names a task.", "RequestHeaders", []string{"genbus.v1.CancelVideoTaskRequest"}},
	"VideoCancelJSON":    {"Names a task.", "QuestionHeaders", []string{"genbus.v1.CancelVideoTaskRequest"}},
	"VideoCancelled":     {"The task after the cancel.", "ReplyHeaders", []string{"genbus.v1.CancelVideoTaskResponse"}},
	"VideoList":          {"Selects a page.", "RequestHeaders", []string{"genbus.v1.ListVideoTasksRequest"}},
	"VideoListJSON":      {"Selects a page.", "QuestionHeaders", []string{"genbus.v1.ListVideoTasksRequest"}},
	"VideoPage":          {"A page.", "AnswerHeaders", []string{"genbus.v1.ListVideoTasksResponse"}},
	"VideoPageJSON":      {"A page.", "AnswerHeaders", []string{"GenerationPage"}},
	"ChatGet":            {"Names a chat.", "RequestHeaders", []string{"genbus.v1.GetChatCompletionRequest"}},
	"ChatGetJSON":        {"Names a chat.", "QuestionHeaders", []string{"genbus.v1.GetChatCompletionRequest"}},
	"ChatState":          {"The current state of the chat, with its reply.", "ReplyHeaders", []string{"genbus.v1.GetChatCompletionResponse"}},
	"ChatStateJSON":      {"The current state of the chat, with its reply.", "ReplyHeaders", []string{"ChatJob"}},
	"ChatCancel":         {"Names a chat.", "RequestHeaders", []string{"genbus.v1.CancelChatCompletionRequest"}},
	"ChatCancelJSON":     {"Names a chat.", "QuestionHeaders", []string{"genbus.v1.CancelChatCompletionRequest"}},
	"ChatCancelled":      {"The chat after the cancel.", "ReplyHeaders", []string{"genbus.v1.CancelChatCompletionResponse"}},
	"ChatList":           {"Selects a page.", "RequestHeaders", []string{"genbus.v1.ListChatCompletionsRequest"}},
	"ChatListJSON":       {"Selects a page.", "QuestionHeaders", []string{"genbus.v1.ListChatCompletionsRequest"}},
	"ChatPage":           {"A page.", "AnswerHeaders", []string{"genbus.v1.ListChatCompletionsResponse"}},
	"ChatPageJSON":       {"A page.", "AnswerHeaders", []string{"ChatPage"}},
	"ModelsList":         {"Selects models.", "RequestHeaders", []string{"genbus.v1.ListModelsRequest"}},
	"ModelsListJSON":     {"Selects models.", "QuestionHeaders", []string{"genbus.v1.ListModelsRequest"}},
	"Models":             {"The models.", "AnswerHeaders", []string{"genbus.v1.ListModelsResponse"}},
	"ModelsJSON":         {"The models.", "AnswerHeaders", []string{"ModelList"}},
	"ContentGet":         {"Selects a part of a file.", "RequestHeaders", []string{"genbus.v1.DownloadVideoRequest"}},
	"ContentGetJSON":     {"Selects a part of a file.", "QuestionHeaders", []string{"genbus.v1.DownloadVideoRequest"}},
	"ContentPiece":       {"Bytes of the file. The first reply has the file's media type in content-type.", "PieceHeaders", []string{"Bytes"}},
	"ContentEnd":         {"The last reply, which has no bytes.", "EndHeaders", []string{"NoBytes"}},
	"VideoTaskEvent":     {"One change of a video task, with the whole task after it.", "EventHeaders", []string{"genbus.v1.VideoTaskEvent"}},
	"VideoTaskEventJSON": {"One change of a video task, with the whole task after it.", "EventHeaders", []string{"VideoTaskEvent"}},
	"ChatEvent":          {"One change of a chat, with the whole chat after it.", "EventHeaders", []string{"genbus.v1.ChatEvent"}},
	"ChatEventJSON":      {"One change of a chat, with the whole chat after it.", "EventHeaders", []string{"ChatEvent"}},
	"ChatChunk":          {"One or more blocks of a streamed chat.", "CloudEventHeaders", []string{"genbus.v1.ChatChunk"}},
	"ChatChunkJSON":      {"One or more blocks of a streamed chat.", "CloudEventHeaders", []string{"ChatChunk"}},
	"UsageEvent":         {"Usage of one ended job.", "CloudEventHeaders", []string{"genbus.v1.UsageEvent"}},
	"UsageEventJSON":     {"Usage of one ended job.", "CloudEventHeaders", []string{"UsageEvent"}},
	"AuditRecord":        {"Operator action.", "AuditHeaders", []string{"genbus.v1.AuditRecord"}},
	"DeadLetter":         {"A job or request that could not be processed, with the reason.", "DeadLetterHeaders", []string{"genbus.v1.DeadLetter"}},
	"WorkItem":           {"An accepted, unfinished job.", "WorkHeaders", []string{"genbus.v1.WorkItem"}},
}

const asyncDescription = `Requests in, and every step out as an event, by NATS JetStream.

* Operations are genbus's: it receives requests, and sends events.
* A payload is Protobuf unless content-type (of requests and replies) or ce-datacontenttype (of events) says application/json. The schema of a Protobuf payload is that of its canonical JSON form; the messages themselves are in the .proto files.
* x-genbus-stream names the JetStream stream that keeps the messages of a channel; without it they are core NATS.
* Bodies above 256 KiB stand in an object store for each tenant, and the message names them.
* Headers that begin with Nats- are JetStream's.

The HTTP paths are in /openapi.json.`

// AsyncAPI returns the AsyncAPI 3.0 document of every subject, header and message. It fails only if
// the embedded files contain a mistake.
func AsyncAPI(n subject.Space) ([]byte, error) {
	schemas, err := asyncSchemas()
	if err != nil {
		return nil, err
	}
	document := object{
		"asyncapi":           "3.0.0",
		"info":               object{"title": "genbus", "version": "v1", "description": asyncDescription, "license": object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"}},
		"defaultContentType": subject.ContentTypeProtobuf,
		"servers": object{"nats": object{
			"host": "127.0.0.1:4222", "protocol": "nats", "description": "The embedded server at its default address; a deployment has its own.",
		}},
		"channels":         object{},
		"operations":       object{},
		"components":       object{"schemas": schemas, "messages": messageObjects()},
		"x-genbus-streams": streams(n),
	}
	for _, c := range channels(n) {
		c.addTo(document)
	}
	prune(document)
	return write(document)
}

// asyncSchemas returns the schemas of the Protobuf messages, of the HTTP bodies that NATS also
// carries, and of the headers.
func asyncSchemas() (object, error) {
	document, err := parts()
	if err != nil {
		return nil, err
	}
	schemas := at(document, "components", "schemas")
	for _, schema := range schemas {
		allowNulls(schema)
	}
	all, err := messages()
	if err != nil {
		return nil, err
	}
	for _, event := range []string{"VideoTaskEvent", "ChatEvent", "ChatChunk", "UsageEvent"} {
		at(all, event, "properties")["protobuf"] = object{"type": "string", "format": "byte", "description": "The same data as Protobuf, which genbus reads back. Readers ignore it."}
	}
	// HTTP answers include long replies, so the HTTP schema lacks this field.
	at(schemas, "ChatJob", "properties")["reply_ref"] = object{
		"allOf": []any{object{"$ref": "#/components/schemas/BlobRef"}}, "description": "Reference to a reply above 256 KiB.",
	}
	all["GenerationPage"], all["ChatPage"] = pageOf("Generation"), pageOf("ChatJob")
	all["Bytes"] = object{"type": "string", "format": "binary"}
	all["NoBytes"] = object{"type": "string", "maxLength": 0}
	for name, set := range headerSets {
		all[name] = set.schema()
	}
	return schemas, merge(schemas, all)
}

// pageOf returns the schema of a page of jobs over NATS.
func pageOf(job string) object {
	id := object{"type": "string"}
	AllowNull(id)
	return object{
		"type": "object", "required": []any{"object", "data", "first_id", "last_id", "has_more"},
		"properties": object{
			"object": object{"type": "string", "enum": []any{"list"}}, "data": object{"type": "array", "items": ref(job)}, "first_id": id, "last_id": id,
			"has_more": object{"type": "boolean"}, "next_page_token": object{"type": "string", "description": "page_token of the next page."},
		},
	}
}

// allowNulls converts OpenAPI's nullable to JSON Schema everywhere in v.
func allowNulls(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			allowNulls(e)
		}
	case object:
		for _, e := range v {
			allowNulls(e)
		}
		if v["nullable"] == true {
			AllowNull(v)
		}
	}
}

// AllowNull converts a nullable OpenAPI 3.0 schema to JSON Schema, in place.
func AllowNull(schema map[string]any) {
	wanted := object{}
	for name, value := range schema {
		wanted[name] = value
		delete(schema, name)
	}
	delete(wanted, "nullable")
	schema["anyOf"] = []any{object{"type": "null"}, wanted}
}

func messageObjects() object {
	out := object{}
	for name, m := range payloads {
		contentType := subject.ContentTypeProtobuf
		switch {
		case strings.HasSuffix(name, "JSON"):
			contentType = subject.ContentTypeJSON
		case name == "ContentPiece", name == "ContentEnd":
			contentType = "application/octet-stream"
		}
		payload := ref(m.payload[0])
		if len(m.payload) > 1 {
			var forms []any
			for _, schema := range m.payload {
				forms = append(forms, ref(schema))
			}
			payload = object{"anyOf": forms}
		}
		out[name] = object{"name": name, "title": name, "summary": m.summary, "contentType": contentType, "headers": ref(m.headers), "payload": payload}
	}
	return out
}

// addTo adds the channel, its reply channel and its operations to the document.
func (c channel) addTo(document object) {
	all := at(document, "channels")
	all[c.id] = c.object()
	if c.replies != nil {
		all[c.id+"Reply"] = object{"address": nil, "title": c.title + ": the reply", "messages": messageRefs(c.replies), "description": "Reply inbox of the request."}
	}
	for action := range strings.FieldsSeq(c.action) {
		operation := object{"action": action, "title": c.title, "channel": object{"$ref": "#/channels/" + c.id}, "messages": channelRefs(c.id, c.messages)}
		if c.replies != nil {
			operation["reply"] = object{"channel": object{"$ref": "#/channels/" + c.id + "Reply"}, "messages": channelRefs(c.id+"Reply", c.replies)}
		}
		at(document, "operations")[action+strings.ToUpper(c.id[:1])+c.id[1:]] = operation
	}
}

func (c channel) object() object {
	out := object{"address": c.address, "title": c.title, "description": c.description, "messages": messageRefs(c.messages)}
	if c.stream != "" {
		out["x-genbus-stream"] = c.stream
	}
	given := object{}
	for name, p := range parameters {
		if strings.Contains(c.address, "{"+name+"}") {
			given[name] = p
		}
	}
	out["parameters"] = given
	return out
}

func messageRefs(names []string) object {
	out := object{}
	for _, name := range names {
		out[name] = object{"$ref": "#/components/messages/" + name}
	}
	return out
}

func channelRefs(id string, names []string) (out []any) {
	for _, name := range names {
		out = append(out, object{"$ref": "#/channels/" + id + "/messages/" + name})
	}
	return out
}

// streams describes every stream.
func streams(n subject.Space) []any {
	var out []any
	for _, s := range []struct{ name, means string }{
		{n.Requests(), "The durable inbox. Publish to it; only genbus reads it."},
		{n.Tasks(), "The log of every job, and the feed of finished ones; seven days."},
		{n.Chunks(), "Chunks of streamed chats; in memory, 15 minutes."},
		{n.UsageStream(), "Usage of ended jobs; 31 days."},
		{n.Dead(), "Accepted jobs that could not be processed."},
		{n.Ops(), "Operator actions; 90 days. Internal."},
		{n.Rejected(), "Rejected requests."},
		{n.Work(), "Accepted, unfinished jobs. Internal."},
		{n.Wait(), "Accepted jobs waiting for their turn. Internal."},
		{n.Bodies(aTenant), "Object store of one tenant: bodies too large for a message, and copies of results."},
	} {
		out = append(out, object{"name": s.name, "description": s.means})
	}
	return out
}
