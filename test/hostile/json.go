package hostile

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is the API of a body: one of the four video protocols, or chat.
type Kind string

// The kinds.
const (
	Primary Kind = "primary"
	Videos  Kind = "videos"
	Kling   Kind = "kling"
	Jimeng  Kind = "jimeng"
	Chat    Kind = "chat"
)

// Kinds lists all kinds.
var Kinds = []Kind{Primary, Videos, Kling, Jimeng, Chat}

// member is one member of a body. Its value is JSON.
type member struct{ name, value string }

// good returns the members of a valid body.
func (k Kind) good(t Target) []member {
	prompt := strconv.Quote("a cat " + t.Marker)
	switch k {
	case Videos:
		return []member{{"model", `"sandbox-videos"`}, {"prompt", prompt}, {"seconds", `"4"`}, {"size", `"1280x720"`}}
	case Kling:
		return []member{{"model_name", `"sandbox-kling"`}, {"prompt", prompt}, {"duration", `"5"`}}
	case Jimeng:
		return []member{{"req_key", `"sandbox-jimeng"`}, {"prompt", prompt}}
	case Chat:
		return []member{{"model", `"sandbox-chat-fast:chunks=2"`}, {"messages", `[{"role":"user","content":` + prompt + `}]`}}
	default:
		return []member{{"model", `"sandbox-video"`}, {"prompt", prompt}}
	}
}

// members returns the member names that the kind's API knows.
func (k Kind) members() []string {
	switch k {
	case Videos:
		return []string{"model", "prompt", "seconds", "size", "input_reference", "metadata", "n", "seed", "fps", "duration"}
	case Kling:
		return []string{
			"model_name", "model", "prompt", "negative_prompt", "duration", "mode", "cfg_scale", "aspect_ratio", "camera_control", "image", "image_tail",
			"static_mask", "dynamic_masks", "callback_url", "external_task_id", "metadata", "sound",
		}
	case Jimeng:
		return []string{"req_key", "model", "prompt", "image_urls", "binary_data_base64", "seed", "frames", "aspect_ratio", "metadata", "req_json", "task_id"}
	case Chat:
		return []string{
			"model", "messages", "stream", "stream_options", "temperature", "top_p", "max_tokens", "n", "stop", "tools", "tool_choice", "response_format",
			"logit_bias", "user", "seed", "functions", "metadata", "modalities",
		}
	default:
		return []string{"model", "prompt", "image", "duration", "width", "height", "fps", "seed", "n", "metadata", "response_format", "user"}
	}
}

// wrongValues are JSON values that few members accept.
var wrongValues = []string{
	`null`, `true`, `false`, `0`, `-1`, `-0`, `1.5`, `1e400`, `1E-400`, `9223372036854775808`, strings.Repeat("9", 2000), `0.` + strings.Repeat("1", 2000), `""`, `" "`, `"x"`,
	`"\u0000"`, `"\ud83d"`, `"\udc00\ud800"`, `"\r\nX-Injected: 1"`, `"\nlevel=ERROR msg=forged injected=1"`, `"*"`, `"a.b.>"`, `"http://169.254.169.254/latest/meta-data/"`,
	`"file:///etc/passwd"`, `"gopher://127.0.0.1:25/"`, `"data:image/png;base64,!!!!"`, `"data:image/png;base64,AAAA"`, `"data:;;;,"`, `"data:image/png;name=%0d%0aX;base64,iVBORw0KGgo="`,
	`[]`, `{}`, `[[]]`, `[null]`, `[0]`, `[""]`, `{"":null}`, `[{"role":"user"}]`, `[{"role":1,"content":{}}]`, `{"image_url":1}`, `{"image_url":"data:x"}`, `{"model":"x","req_key":"y"}`,
	`{"type":"function"}`, `"` + strings.Repeat("A", 70_000) + `"`, strings.Repeat("[", 250) + strings.Repeat("]", 250),
}

// WrongMembers returns the number of bodies that WrongMember can return. There is one for each
// member of each kind with each wrong value.
func WrongMembers() int {
	n := 0
	for _, k := range Kinds {
		n += len(k.members()) * len(wrongValues)
	}
	return n
}

// WrongMember returns the body with this number. It is valid except for one member.
func WrongMember(t Target, number int) (Kind, Input) {
	for _, k := range Kinds {
		all := k.members()
		if n := len(all) * len(wrongValues); number >= n {
			number -= n
			continue
		}
		name, wrong := all[number/len(wrongValues)], number%len(wrongValues)
		body := set(k.good(t), name, wrongValues[wrong])
		return k, Input{Name: fmt.Sprintf("%s: %s is wrong value %d", k, name, wrong), Bytes: []byte(render(body))}
	}
	return Primary, Input{}
}

func set(members []member, name, value string) []member {
	for i := range members {
		if members[i].name == name {
			members[i].value = value
			return members
		}
	}
	return append(members, member{name, value})
}

func render(members []member) string {
	pairs := make([]string, len(members))
	for i, m := range members {
		pairs[i] = strconv.Quote(m.name) + ":" + m.value
	}
	return "{" + strings.Join(pairs, ",") + "}"
}
