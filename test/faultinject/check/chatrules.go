package check

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// generated reports whether the upstream generated exactly this text in one of the chat's calls.
func (f *facts) generated(job, text string) bool {
	return slices.ContainsFunc(f.posts[job], func(p Post) bool { return !p.Video && p.Accepted && p.Text == text })
}

// chatReply checks the replies of completed chats. An inline chat may have lost its reply.
func chatReply(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.logs) {
		end, ended := f.end(id)
		if isVideo(id) || !ended || end.Status != "completed" {
			continue
		}
		looked++
		switch {
		case !end.Replied && !end.Inline:
			broken(id, "completed without a reply")
		case end.Replied && !f.generated(id, end.Text):
			broken(id, "its reply of %d bytes is nothing that the upstream said: %s", len(end.Text), f.nearest(id, end.Text))
		}
	}
	return looked
}

// nearest describes how a text differs from the upstream's texts.
func (f *facts) nearest(job, text string) string {
	out := []string{clip(text)}
	for _, p := range f.posts[job] {
		out = append(out, "POST at "+clock(p.Time)+" fault "+p.Fault+" said "+clip(p.Text))
	}
	return strings.Join(out, "; ")
}

func clip(text string) string {
	const most = 60
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// pieces are the blocks of one attempt, by index.
type pieces map[uint64]string

// attempt collects the blocks of one attempt. If a block occurs twice with different bytes, it
// returns false and the block's index.
func (f *facts) attempt(job string, attempt uint32) (pieces, uint64, bool) {
	all := pieces{}
	for _, c := range f.chunks[job] {
		for i, block := range c.Blocks {
			at := c.Index + uint64(i)
			if c.Attempt != attempt {
				continue
			}
			if other, known := all[at]; known && other != block {
				return all, at, false
			}
			all[at] = block
		}
	}
	return all, 0, true
}

// text joins the content of consecutive blocks from index 0 and returns the number of those blocks.
func (p pieces) text() (string, uint64) {
	var out strings.Builder
	for i := uint64(0); ; i++ {
		block, there := p[i]
		if !there {
			return out.String(), i
		}
		out.WriteString(content(block))
	}
}

// content returns the text in an upstream's block, or "".
func content(block string) string {
	var chunk struct {
		Choices []struct {
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal([]byte(block), &chunk) != nil || len(chunk.Choices) == 0 {
		return ""
	}
	return chunk.Choices[0].Delta.Content
}

func chatChunks(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.chunks) {
		end, ended := f.end(id)
		if !ended {
			continue
		}
		looked++
		blocks, at, same := f.attempt(id, end.Attempt)
		if !same {
			broken(id, "block %d of attempt %d was published twice with different bytes", at, end.Attempt)
			continue
		}
		f.rebuilds(end, blocks, broken)
	}
	return looked
}

// rebuilds compares the chunks of the winning attempt with the upstream's text.
func (f *facts) rebuilds(end Event, blocks pieces, broken report) {
	text, count := blocks.text()
	whole := count == uint64(len(blocks)) && count >= end.ChunkCount
	switch {
	case end.Status == "completed" && whole && end.Replied && text != end.Text:
		broken(end.Job, "the %d blocks of attempt %d say other things than the reply: %s", count, end.Attempt, clip(text))
	case end.Status == "completed" && whole && !f.generated(end.Job, text):
		broken(end.Job, "the %d blocks of attempt %d say nothing that the upstream said: %s", count, end.Attempt, f.nearest(end.Job, text))
	case !f.began(end.Job, text):
		broken(end.Job, "the first %d blocks of attempt %d are no beginning of what the upstream said: %s", count, end.Attempt, f.nearest(end.Job, text))
	case !whole && !end.Inline && !f.chunksExcused(end):
		broken(end.Job, "attempt %d has %d blocks, %d of them from the start, and the terminal event counts %d", end.Attempt, len(blocks), count, end.ChunkCount)
	}
}

// began reports whether the upstream sent a reply that starts with this text.
func (f *facts) began(job, text string) bool {
	return slices.ContainsFunc(f.posts[job], func(p Post) bool { return !p.Video && strings.HasPrefix(p.Text, text) })
}

// chunksExcused reports whether chunks may be missing. The broker keeps chunks in memory for a
// limited time, and chunks are dropped if the broker does not confirm them in time.
func (f *facts) chunksExcused(end Event) bool {
	begin := end.FirstSubmit.Add(-f.Config.Skew)
	if f.Finished.Sub(begin) > f.Config.ChunkAge {
		return true
	}
	return slices.ContainsFunc(f.Faults, func(fault Fault) bool {
		return fault.Wipes && fault.during(begin, f.Finished) || fault.harms() && fault.during(begin, end.Time.Add(time.Second))
	})
}
