package load

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// known rejects members that a typed body would silently drop.
var known = json.RejectUnknownMembers(true)

// typedVideo converts the output of videoBody to a message.
func typedVideo(body []byte) (*genbusv1.VideoGeneration, error) {
	var v struct {
		Model    string         `json:"model"`
		Prompt   string         `json:"prompt"`
		Image    *string        `json:"image"`
		Duration float64        `json:"duration"`
		Metadata jsontext.Value `json:"metadata"`
	}
	if err := json.Unmarshal(body, &v, known); err != nil {
		return nil, err
	}
	return &genbusv1.VideoGeneration{
		Model: v.Model, Prompt: v.Prompt, Image: v.Image, Duration: proto.Float64(v.Duration), MetadataJson: v.Metadata,
	}, nil
}

// typedChat converts the output of chatBody to a message.
func typedChat(body []byte) (*genbusv1.ChatCompletionBody, error) {
	var v struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
		Sandbox jsontext.Value `json:"sandbox"`
	}
	if err := json.Unmarshal(body, &v, known); err != nil {
		return nil, err
	}
	m := &genbusv1.ChatCompletionBody{Model: v.Model, Stream: proto.Bool(v.Stream), ExtraJson: []byte(`{"sandbox":` + string(v.Sandbox) + `}`)}
	for _, one := range v.Messages {
		m.Messages = append(m.Messages, &genbusv1.ChatMessage{Role: one.Role, Content: &genbusv1.ChatMessage_Text{Text: one.Content}})
	}
	return m, nil
}
