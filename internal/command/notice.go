package command

import (
	"context"
	"fmt"
	"mime"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/genbus/genbus/client"
	"github.com/genbus/genbus/internal/subject"
)

// printNotice prints a notice about a job to standard error. Standard output contains only the
// result, which a program may read.
func printNotice(jobID, notice string) {
	text := "notice " + notice
	if code, of, _ := mime.ParseMediaType(notice); code == client.NoticeRoutePaused {
		text = "the job waits because an operator paused its route"
		if until := of["until"]; until != "" {
			text += " until " + until
		}
		if reason := of["reason"]; reason != "" {
			text += ", reason: " + reason
		}
		text += " (" + code + ")"
	}
	fmt.Fprintf(os.Stderr, "genbus: %s: %s\n", clean(jobID), clean(text))
}

// printQuiet tells the user where to look for problems if no text of a chat arrives.
func printQuiet(jobID string) {
	fmt.Fprintf(os.Stderr, "genbus: %[1]s: no text yet; to check for failing upstream calls, run \"genbus operator jobs show %[1]s\" or \"genbus operator upstreams\"\n", clean(jobID))
}

// noticeInterceptor is a gRPC interceptor that prints an answer's notice, if any.
func noticeInterceptor(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var header metadata.MD
	err := call(ctx, method, request, reply, conn, append(opts, grpc.Header(&header))...)
	if id, notice := header.Get(subject.HeaderJobID), header.Get(subject.HeaderNotice); len(id) > 0 && len(notice) > 0 {
		printNotice(id[0], notice[0])
	}
	return err
}
