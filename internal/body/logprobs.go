package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func (w *writer) logprobs(m *genbusv1.ChatLogprobs) {
	o := w.open()
	list(o, "content", m.GetContent(), (*writer).tokenLogprob)
	list(o, "refusal", m.GetRefusal(), (*writer).tokenLogprob)
	o.close(m.GetExtraJson())
}

func readLogprobs(c *cursor, m *genbusv1.ChatLogprobs) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "content":
			return some(c, &m.Content, readTokenLogprob)
		case "refusal":
			return some(c, &m.Refusal, readTokenLogprob)
		}
		return false
	})
}

func (w *writer) tokenLogprob(m *genbusv1.ChatTokenLogprob) {
	o := w.open()
	o.text("token", m.GetToken())
	if m.GetLogprob() != 0 || !holds(m.GetExtraJson(), "logprob") {
		o.double("logprob", m.GetLogprob())
	}
	o.octets("bytes", m.GetBytes())
	list(o, "top_logprobs", m.GetTopLogprobs(), (*writer).tokenLogprob)
	o.close(m.GetExtraJson())
}

// readTokenLogprob reads logprob as the nearest double, because some servers write more digits than
// a double holds, and clients need the number in this field. It recurses through top_logprobs, up
// to MaxDepth.
func readTokenLogprob(c *cursor, m *genbusv1.ChatTokenLogprob) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "token":
			return c.text(&m.Token)
		case "logprob":
			return c.nearest(&m.Logprob)
		case "bytes":
			return c.octets(&m.Bytes)
		case "top_logprobs":
			return some(c, &m.TopLogprobs, readTokenLogprob)
		}
		return false
	})
}
