package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// ParseUsage parses an upstream's usage object. It returns nil if raw is not a JSON object.
func ParseUsage(raw []byte) *genbusv1.Usage {
	if checkObject(raw, lenient) != nil {
		return nil
	}
	u := new(genbusv1.Usage)
	readUsage(newCursor(raw), u)
	return u
}

func (w *writer) usage(u *genbusv1.Usage) {
	o := w.open()
	o.optInt64("prompt_tokens", u.PromptTokens)
	o.optInt64("completion_tokens", u.CompletionTokens)
	o.optInt64("total_tokens", u.TotalTokens)
	nest(o, "prompt_tokens_details", u.GetPromptTokensDetails(), (*writer).promptDetails)
	nest(o, "completion_tokens_details", u.GetCompletionTokensDetails(), (*writer).completionDetails)
	o.close(u.GetExtraJson())
}

func readUsage(c *cursor, u *genbusv1.Usage) {
	c.object(&u.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "prompt_tokens":
			return c.optInt64(&u.PromptTokens)
		case "completion_tokens":
			return c.optInt64(&u.CompletionTokens)
		case "total_tokens":
			return c.optInt64(&u.TotalTokens)
		case "prompt_tokens_details":
			return one(c, &u.PromptTokensDetails, readPromptDetails)
		case "completion_tokens_details":
			return one(c, &u.CompletionTokensDetails, readCompletionDetails)
		}
		return false
	})
}

func (w *writer) promptDetails(d *genbusv1.PromptTokensDetails) {
	o := w.open()
	o.optInt64("cached_tokens", d.CachedTokens)
	o.optInt64("audio_tokens", d.AudioTokens)
	o.optInt64("text_tokens", d.TextTokens)
	o.optInt64("image_tokens", d.ImageTokens)
	o.optInt64("cache_write_tokens", d.CacheWriteTokens)
	o.close(d.GetExtraJson())
}

func readPromptDetails(c *cursor, d *genbusv1.PromptTokensDetails) {
	c.object(&d.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "cached_tokens":
			return c.optInt64(&d.CachedTokens)
		case "audio_tokens":
			return c.optInt64(&d.AudioTokens)
		case "text_tokens":
			return c.optInt64(&d.TextTokens)
		case "image_tokens":
			return c.optInt64(&d.ImageTokens)
		case "cache_write_tokens":
			return c.optInt64(&d.CacheWriteTokens)
		}
		return false
	})
}

func (w *writer) completionDetails(d *genbusv1.CompletionTokensDetails) {
	o := w.open()
	o.optInt64("reasoning_tokens", d.ReasoningTokens)
	o.optInt64("audio_tokens", d.AudioTokens)
	o.optInt64("text_tokens", d.TextTokens)
	o.optInt64("accepted_prediction_tokens", d.AcceptedPredictionTokens)
	o.optInt64("rejected_prediction_tokens", d.RejectedPredictionTokens)
	o.close(d.GetExtraJson())
}

func readCompletionDetails(c *cursor, d *genbusv1.CompletionTokensDetails) {
	c.object(&d.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "reasoning_tokens":
			return c.optInt64(&d.ReasoningTokens)
		case "audio_tokens":
			return c.optInt64(&d.AudioTokens)
		case "text_tokens":
			return c.optInt64(&d.TextTokens)
		case "accepted_prediction_tokens":
			return c.optInt64(&d.AcceptedPredictionTokens)
		case "rejected_prediction_tokens":
			return c.optInt64(&d.RejectedPredictionTokens)
		}
		return false
	})
}
