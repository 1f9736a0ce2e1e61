package check

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject/brief"
)

// object returns the Object of a reference, or nil.
func object(ref *genbusv1.BlobRef) *Object {
	if ref == nil {
		return nil
	}
	return &Object{Bucket: ref.GetBucket(), Name: ref.GetName(), Size: ref.GetSize(), Sum: hex.EncodeToString(ref.GetSha256())}
}

// files records the copies that an event of a video names.
func (e *Event) files(v *genbusv1.VideoTask) {
	for _, ref := range v.GetArchive().GetFiles() {
		e.Files = append(e.Files, *object(ref))
	}
	for _, video := range v.GetVideos() {
		if video.GetArchived() != nil {
			e.Archived++
		}
	}
}

// ReadObjects reads every object that terminal events, dead letters and chunks name, and records
// its defects.
func (h *History) ReadObjects(read func(Object) ([]byte, error)) {
	for i := range h.Events {
		e := &h.Events[i]
		if !e.terminal() {
			continue
		}
		if data, ok := e.Reply.read(read); ok {
			e.Text, e.Replied = ReplyText(data)
		}
		for j := range e.Files {
			e.Files[j].read(read)
		}
	}
	for i := range h.Chunks {
		if data, ok := h.Chunks[i].Block.read(read); ok {
			h.Chunks[i].Blocks = []string{brief.Of(string(data))}
		}
	}
	h.ReadDeadLetters(read)
}

// ReadDeadLetters is like ReadObjects but reads only the objects of dead letters.
func (h *History) ReadDeadLetters(read func(Object) ([]byte, error)) {
	for i := range h.DeadLetters {
		l := &h.DeadLetters[i]
		if data, ok := l.Data.read(read); ok {
			l.Marker = cmp.Or(l.Marker, MarkOf(data))
			l.Input = brief.Longest(string(data))
		}
		if data, ok := l.Upload.read(read); ok {
			l.Marker = cmp.Or(l.Marker, MarkOf(data))
		}
	}
}

// upload returns the object named by the message in a dead letter, or nil if the message is itself
// the request.
func upload(names subject.Space, l *genbusv1.DeadLetter) *Object {
	var ref *genbusv1.BlobRef
	if l.GetKind() == string(subject.Chat) {
		var r genbusv1.ChatRequest
		if proto.Unmarshal(l.GetData(), &r) == nil {
			ref = r.GetStored()
		}
	} else {
		var r genbusv1.VideoRequest
		if proto.Unmarshal(l.GetData(), &r) == nil {
			ref = r.GetStored()
		}
	}
	out := object(ref)
	if out != nil {
		out.Bucket = cmp.Or(out.Bucket, names.Bodies(l.GetTenant()))
	}
	return out
}

// read reads an object and compares it with its reference.
func (o *Object) read(read func(Object) ([]byte, error)) ([]byte, bool) {
	if o == nil {
		return nil, false
	}
	data, err := read(*o)
	sum := sha256.Sum256(data)
	switch {
	case err != nil:
		o.Lost, o.Torn = err.Error(), errors.Is(err, jetstream.ErrDigestMismatch)
	case uint64(len(data)) != o.Size || hex.EncodeToString(sum[:]) != o.Sum:
		o.Lost = fmt.Sprintf("it is another one, with %d bytes (%.6x) in place of %d (%.12s)", len(data), sum, o.Size, o.Sum)
	}
	return data, o.Lost == ""
}
