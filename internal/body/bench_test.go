package body

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

const deltaBlock = `{"id":"chatcmpl-9f3Ab7Qx","object":"chat.completion.chunk","created":1795216476,` +
	`"model":"sandbox-chat","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":" token"},` +
	`"logprobs":null,"finish_reason":null}]}`

func bigChat() []byte { return chatOf(16 << 10) }

func chatOf(bytes int) []byte {
	const message = `{"role":"user","content":"Some words of a conversation, \"quoted\" and not, about a hundred bytes long.\n"},`
	return fmt.Appendf(nil, `{"model":"sandbox-chat","messages":[%s{"role":"user","content":"end"}],"stream":true,"temperature":0.2}`,
		strings.Repeat(message, bytes/len(message)))
}

func benchmark(b *testing.B, body []byte, run func(body []byte) error) {
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := run(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseChunk(b *testing.B) {
	benchmark(b, []byte(deltaBlock), func(body []byte) error { _, err := ParseChunk(body); return err })
}

func BenchmarkFingerprint(b *testing.B) {
	b.Run("16KiB", func(b *testing.B) {
		benchmark(b, bigChat(), func(body []byte) error { _, err := fingerprint(body); return err })
	})
	b.Run("1MiB-nested", func(b *testing.B) {
		body := strings.Repeat(`{"z":1,"a":`, 150) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 150)
		benchmark(b, []byte(body), func(body []byte) error { _, err := fingerprint(body); return err })
	})
}

func BenchmarkHeader(b *testing.B) {
	benchmark(b, bigChat(), func(body []byte) error { _, err := header(body); return err })
}

func BenchmarkCheckChat(b *testing.B) {
	benchmark(b, bigChat(), func(body []byte) error {
		if v := checkChat(body); v != nil {
			return &FieldError{Violation: v[0]}
		}
		return nil
	})
}

// BenchmarkAdmission measures everything that admission does with a chat's body, with and without a
// request ID.
func BenchmarkAdmission(b *testing.B) {
	for _, size := range []int{10 << 10, 1 << 20} {
		for _, identified := range []bool{true, false} {
			b.Run(fmt.Sprintf("bytes=%d/fingerprint=%t", size, identified), func(b *testing.B) {
				benchmark(b, chatOf(size), func(body []byte) error {
					d := Parse(body)
					if d.Err() != nil || d.Head().Model == "" || d.CheckChat() != nil {
						return fmt.Errorf("%w, or a violation", d.Err())
					}
					if identified {
						d.Fingerprint()
					}
					return nil
				})
			})
		}
	}
}

func BenchmarkWithText(b *testing.B) {
	benchmark(b, bigChat(), func(body []byte) error { return Trusted(body).WithText("model", "vendor/model").Err() })
}

func BenchmarkEventJSON(b *testing.B) {
	event := &genbusv1.VideoTaskEvent{
		Id: "video_abc.3.n", Version: 3, Time: timestamppb.Now(), PreviousStatus: genbusv1.JobStatus_JOB_STATUS_QUEUED,
		Task: &genbusv1.VideoTask{
			Id: "video_abc", Status: genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS, Progress: 40, Model: "sandbox-video",
			CreatedAt: timestamppb.Now(), UpdatedAt: timestamppb.Now(), Tenant: "default", Version: 3,
			UpstreamTaskId: "task_1", UpstreamStatus: "processing", Protocol: "primary",
		},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EventJSON(event); err != nil {
			b.Fatal(err)
		}
	}
}
