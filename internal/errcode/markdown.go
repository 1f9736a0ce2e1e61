package errcode

import (
	"fmt"
	"strings"
)

// Markdown is docs/errors.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Errors\n\n" +
		"With this page a client decides what to do about an error. Generated from the table in `internal/errcode`; do not edit.\n\n" +
		"The same code is in HTTP answers (`error.code`), in gRPC (`google.rpc.ErrorInfo.reason`, domain `genbus`), in events\n" +
		"(`task.error.code`), in dead letters and in NATS replies (header `genbus-error-code`). Codes are never renamed.\n" +
		"A refusal of a chat's upstream that is passed on by HTTP keeps the upstream's status, type and code in the body; our\n" +
		"code is in the header `Genbus-Error-Code` of every HTTP error.\n" +
		"*Retry* says whether the same request may succeed later; HTTP errors say it in `X-Should-Retry`, which the SDKs of OpenAI obey. A request of\n" +
		"unknown acceptance that has an `Idempotency-Key` may be sent again, and the error of a job that has ended is final whatever its code.\n\n" +
		"| code | HTTP | gRPC | retry | what happened | what to do |\n|---|---|---|---|---|---|\n")
	for _, m := range table {
		retry := "final"
		if m.Retry {
			retry = "retry"
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s | %s |\n", m.Code, m.HTTP, m.GRPC, retry, m.Means, m.Do)
	}
	return b.String()
}
