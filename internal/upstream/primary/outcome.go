package primary

import "github.com/genbus/genbus/internal/upstream"

// row says what one kind of answer to a create means. The first row that
// matches decides.
type row struct {
	from, to int    // HTTP status, both inclusive
	code     string // the code word of the answer (its type when it has none); "" matches all
	verdict  upstream.Verdict
	// bare: the status alone says it. Without it a body that cannot be read as
	// an error makes the outcome unknown: who knows which proxy wrote it.
	bare bool
	// listed: it means "not accepted" on a resubmission too. Without it the
	// outcome of a resubmission is unknown, because the answer may be about the
	// earlier submission.
	listed bool
}

// outcomes is the outcome table of the protocol. Codes come before statuses:
// servers send permanent refusals as 503 and 500.
var outcomes = []row{
	{400, 599, "model_not_found", upstream.RefusedForGood, false, true}, // comes as 503
	{400, 599, "invalid_request", upstream.RefusedForGood, false, true}, // comes as 400 and 500
	{400, 599, "insufficient_quota", upstream.RefusedForGood, false, true},
	{400, 599, "insufficient_user_quota", upstream.RefusedForGood, false, true},
	{400, 400, "task_failed", upstream.RefusedForGood, false, true}, // the vendor's own refusal
	{400, 599, "system_cpu_overloaded", upstream.RefusedForNow, false, true},
	{400, 599, "system_memory_overloaded", upstream.RefusedForNow, false, true},
	{400, 599, "system_disk_overloaded", upstream.RefusedForNow, false, true},
	// A gateway that could not read what its vendor said: the vendor may have
	// taken the job.
	{500, 599, "fail_to_fetch_task", upstream.Unknown, false, false},
	// A vendor's codes, passed on with status 500: input refused (content,
	// copyright, parameters, access), then rate and concurrency.
	{400, 599, "50411", upstream.RefusedForGood, false, true},
	{400, 599, "50412", upstream.RefusedForGood, false, true},
	{400, 599, "50413", upstream.RefusedForGood, false, true},
	{400, 599, "50512", upstream.RefusedForGood, false, true},
	{400, 599, "50518", upstream.RefusedForGood, false, true},
	{400, 599, "50215", upstream.RefusedForGood, false, true},
	{400, 599, "50400", upstream.RefusedForGood, false, true},
	{400, 599, "50429", upstream.RefusedForNow, false, true},
	{400, 599, "50430", upstream.RefusedForNow, false, true},

	// These redirects keep the method: the server asks for the same request
	// elsewhere and so has not acted on it. The others (302, 303) are also how a
	// server says "done, look there".
	{301, 301, "", upstream.RefusedForGood, true, true},
	{307, 308, "", upstream.RefusedForGood, true, true},
	{300, 399, "", upstream.Unknown, true, true},

	{401, 403, "", upstream.RefusedForGood, false, true}, // key, payment, permission
	{408, 408, "", upstream.Unknown, true, true},
	{425, 425, "", upstream.Unknown, true, true},
	// Rate limiters stand before the work and often answer with a page.
	{429, 429, "", upstream.RefusedForNow, true, true},
	{400, 499, "", upstream.RefusedForGood, false, false}, // 409 too, on a first submission
	{500, 599, "", upstream.Unknown, true, true},
}

func (r row) matches(status int, code string) bool {
	return r.from <= status && status <= r.to && (r.code == "" || r.code == code)
}

// outcome gives the verdict on an answer that is not an acceptance. e.Said
// tells whether its body was readable.
func outcome(e *upstream.Error, resubmission bool) upstream.Verdict {
	code := e.Code
	if code == "" {
		code = e.Type
	}
	for _, r := range outcomes {
		if !r.matches(e.HTTPStatus, code) {
			continue
		}
		if (!e.Said && !r.bare) || (resubmission && !r.listed) {
			return upstream.Unknown
		}
		return r.verdict
	}
	return upstream.Unknown
}

// unanswered gives the verdict when no answer came: refused for now when
// nothing of the request was written, unknown otherwise.
func unanswered(e *upstream.Error) upstream.Verdict {
	if e.Written {
		return upstream.Unknown
	}
	return upstream.RefusedForNow
}
