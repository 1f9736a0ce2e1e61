package body

import genbusv1 "github.com/genbus/genbus/gen/genbus/v1"

// VideoPageJSON returns the answer to a NATS request for a page of tasks, each as in VideoTaskJSON.
// next is the token of the next page, or empty.
func VideoPageJSON(list []*genbusv1.VideoTask, next string) []byte {
	return pageJSON(list, (*genbusv1.VideoTask).GetId, func(w *writer, v *genbusv1.VideoTask) { w.taskAnswer(v, nil) }, next != "", next)
}

// ChatPageJSON returns the answer to GET /v1/chat/completions, where next is empty, and to a NATS
// request for a page of chats. The chats are as in ChatJSON, without their replies.
func ChatPageJSON(list []*genbusv1.Chat, more bool, next string) []byte {
	return pageJSON(list, (*genbusv1.Chat).GetId, func(w *writer, c *genbusv1.Chat) { w.chatAnswer(c, nil, nil) }, more, next)
}

// pageJSON writes a list in OpenAI's format, with the token of the next page if there is one.
func pageJSON[T any](list []*T, id func(*T) string, write func(*writer, *T), more bool, next string) []byte {
	var w writer
	o := w.open()
	o.always("object", "list")
	array(o, "data", "data", list, write)
	if len(list) > 0 {
		o.always("first_id", id(list[0]))
		o.always("last_id", id(list[len(list)-1]))
	} else {
		o.null("first_id")
		o.null("last_id")
	}
	o.bool("has_more", more)
	o.text("next_page_token", next)
	o.close(nil)
	return w.buf
}
