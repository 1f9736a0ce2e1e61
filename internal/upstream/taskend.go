package upstream

import (
	"net/http"
	"regexp"
	"strings"
)

// These patterns tell from a word or message of an error, in lower case, what it says about the
// polled task. A poll has no content of its own that could be refused. Texts about a task must
// begin with it: "get task failed" is about the poll.
var (
	refusedContent = regexp.MustCompile(`moderation|content[ _-]?(?:policy|filter)|usage polic|safety system|prohibited[ _-]?content|copyright|` +
		`sensitive[ _-]?(?:content|text|word|info)|(?:in|out)put (?:new_)?sensitive|risk[ _-]?detection|data[ _-]?inspection[ _-]?failed`)
	// refusal matches what a message about refused content also says. Other messages only mention
	// moderation, for example that it is unavailable, or link to a policy.
	refusal = regexp.MustCompile(`rejected|refused|blocked|violat|flagged|filtered|triggered|denied|detected|prohibit|infring|withheld|\bcontains?\b|` +
		`against our|not comply|failed (?:our |the )?(?:content )?moderation|not (?:be )?(?:allowed|permitted|pass)|(?:in|out)put (?:new_)?sensitive`)
	// Codes of vendors A and B. Gateways of every protocol pass them on.
	refusedCode = regexp.MustCompile(`^(?:130[01]|5041[1-4]|5051[1-9]|5052[0-2])$`)
	// otherOutput is the part of refusedCode for outputs. The output of another attempt may pass.
	otherOutput = regexp.MustCompile(`^5051[1679]$`)

	// A bare "failed" may be about the poll.
	endedTask = regexp.MustCompile(`^(expired|cancell?ed)$|` +
		`^` + aTask + `(?:has |is |was )?(?:been )?(?:already )?(failed|expired|cancell?ed)(?:$|[^ a-z]| [^t]| t[^o])`)

	missingTask = regexp.MustCompile(`^(?:` + aTask + `|resource[ _-]?)?(?:was |is |does |do |could )?not[ _-]?(?:be )?(?:found|exist)|^(?:no such|unknown|invalid) (?:video |generation )?(?:task|job|video)\b`)
	// otherMissing matches errors with 404 that are about the path or the model.
	otherMissing = regexp.MustCompile(`^(?:invalid url|unknown[ _](?:request )?url|no route)|model`)
)

// aTask is a pattern for "task", "The video generation", "Task 'abc-123' ", "video_" and the like.
const aTask = `(?:the |your |this )?(?:video[ _-]?)?(?:task|job|video|generation)[ _-]?(?:id )?(?:\S*[0-9]\S* )?`

// NamesEnd reports whether an error with an HTTP status may be about the polled task. Errors about
// keys, limits and the upstream itself (401, 402, 403, 429, 5xx) never are, whatever they say.
func NamesEnd(status int) bool { return callScope(status) == ScopeRequest }

// taskEnd returns the status of a task whose end the error names, or "". The status is a word of
// progressions. final reports whether the same request would fail again. body is the answer.
func (e *Error) taskEnd(body []byte) (status string, final bool) {
	if !e.Reported || !NamesEnd(e.status()) || e.isRemark(body) {
		return "", false
	}
	if refusedCode.MatchString(e.Code) {
		return "failed", !otherOutput.MatchString(e.Code)
	}
	for i, word := range e.words() {
		if refusedContent.MatchString(word) && (i < inMessage || refusal.MatchString(word)) {
			return "failed", true
		}
		if m := endedTask.FindStringSubmatch(word); m != nil {
			return m[1] + m[2], !Unjudged(m[1] + m[2])
		}
	}
	return "", false
}

// isRemark reports whether an answer with status 2xx has a message, but no error. The message may be
// about anything.
func (e *Error) isRemark(body []byte) bool {
	return e.HTTPStatus/100 == 2 && Meaningful(e.Code)+e.Type == "" && !membersOf(body).isError()
}

// taskMissing reports whether the error says that the upstream does not know the task.
func (e *Error) taskMissing() bool {
	status := e.status()
	if !e.Reported || !NamesEnd(status) {
		return false
	}
	missing := status == http.StatusNotFound || status == http.StatusGone
	for _, word := range e.words() {
		if otherMissing.MatchString(word) {
			return false
		}
		missing = missing || missingTask.MatchString(word)
	}
	return missing
}

// inMessage is the index of the message in words.
const inMessage = 2

func (e *Error) words() []string {
	return []string{strings.ToLower(e.Code), strings.ToLower(e.Type), strings.ToLower(e.Message)}
}
