package check

import (
	"slices"
	"time"
)

// Counts summarize a history.
type Counts struct {
	// Jobs counts the queued jobs by kind and ingress, such as "video, http", and by end, such as
	// "failed (deadline_exceeded)". Inline counts the inline chats by end.
	Jobs   map[string]map[string]int `json:"jobs"`
	Inline map[string]int            `json:"inline"`
	// Accepted counts the queued jobs by kind. Stormy counts the jobs that were accepted before the
	// start of the last fault that affected a process, a node or a link.
	Accepted map[string]int `json:"accepted"`
	Stormy   map[string]int `json:"stormy"`
	// Posts counts the POSTs on the wire by kind and fault. Paid is the number of video tasks at
	// the upstreams.
	Posts map[string]map[string]int `json:"posts"`
	Paid  int                       `json:"paid"`
	// Takeovers counts how often another replica continued a job.
	Takeovers int `json:"takeovers"`
	// Unknown counts the unknown outcomes by explanation.
	Unknown map[string]int `json:"unknown"`
	// DeadLetters counts the dead letters by code.
	DeadLetters map[string]int `json:"letters"`
	// Asked counts the clients' requests by operation. Errors counts the failed ones by error.
	Asked  map[string]int `json:"asked"`
	Errors map[string]int `json:"errors"`
	// Lists counts the requested list pages. Listed counts the pages received, and Paged counts
	// those of them that were requested with a page token. Unlisted counts the other pages by
	// error.
	Lists    int            `json:"lists"`
	Listed   int            `json:"listed"`
	Paged    int            `json:"paged"`
	Unlisted map[string]int `json:"unlisted"`
	// Unfinished counts the jobs without an end. Lost counts separately the unfinished jobs whose
	// work item may have been deleted.
	Unfinished int `json:"unfinished"`
	Lost       int `json:"lost"`
	// Attaches counts the answers that returned the existing job of a request_id.
	Attaches int `json:"attaches"`
	// Looked counts the things that each rule checked.
	Looked map[string]int `json:"looked"`
	// Followers counts followers, and Resumes counts their reconnects.
	Followers, Resumes int
	// Trouble is the longest series of errors for a single wish before it was granted or abandoned,
	// by operation and ingress.
	Trouble map[string]Trouble `json:"trouble"`
}

// Trouble is a period in which a client had only errors.
type Trouble struct {
	Lasted time.Duration `json:"lasted"`
	From   time.Time     `json:"from"`
	Errors int           `json:"errors"`
	Op     Op            `json:"op"`
	// Granted is false if the client gave up.
	Granted bool `json:"granted"`
}

func count(f *facts) Counts {
	c := Counts{
		Jobs: map[string]map[string]int{}, Inline: map[string]int{}, Posts: map[string]map[string]int{}, Paid: len(f.Paid),
		Accepted: map[string]int{}, Stormy: map[string]int{}, Unknown: map[string]int{}, DeadLetters: map[string]int{}, Asked: map[string]int{}, Errors: map[string]int{}, Trouble: map[string]Trouble{},
		Unlisted: map[string]int{},
	}
	c.jobs(f)
	for _, p := range f.Posts {
		op := "chat"
		if p.Video {
			op = "video"
		}
		add(c.Posts, op, p.Fault)
	}
	for _, l := range f.DeadLetters {
		c.DeadLetters[l.Code]++
	}
	for _, w := range f.Followed {
		c.Followers++
		c.Resumes += max(w.Connections-1, 0)
	}
	c.asked(f)
	c.listed(f)
	for _, calls := range group(f.Calls, func(t Call) string { return t.Key }) {
		c.Attaches += attaches(calls)
	}
	return c
}

func add(m map[string]map[string]int, a, b string) {
	if m[a] == nil {
		m[a] = map[string]int{}
	}
	m[a][b]++
}

func (c *Counts) jobs(f *facts) {
	ways := map[string]string{}
	for _, t := range f.Calls {
		if t.Marker != "" && ways[t.Marker] == "" {
			ways[t.Marker] = t.Ingress
		}
	}
	calm := f.calm()
	for _, id := range sortedBy(f.logs) {
		log := f.logs[id]
		end, ended := f.end(id)
		switch {
		case log[0].Inline:
			c.Inline[end.Status]++
			continue
		case !ended && f.mayStay(log):
			c.Lost++
		case !ended:
			c.Unfinished++
		case end.Code == codeUnknown:
			c.Unknown[f.explain(end)]++
		}
		c.Accepted[kindOf(id)]++
		if log[0].Time.Before(calm) {
			c.Stormy[kindOf(id)]++
		}
		add(c.Jobs, kindOf(id)+", "+ways[log[0].Marker], endOf(end))
		c.Takeovers += takeovers(log)
	}
}

// calm returns when the last fault that affected a process, a node or a link began.
func (f *facts) calm() time.Time {
	var last time.Time
	for _, fault := range f.Faults {
		if !fault.background() {
			last = later(last, fault.From)
		}
	}
	return last
}

// attaches counts requests with a request_id whose answer names a job that an earlier answer named.
func attaches(calls []Call) int {
	n, known := 0, map[string]bool{}
	for _, t := range calls {
		if t.Key == "" || t.Job == "" || !t.Good() {
			continue
		}
		if known[t.Job] {
			n++
		}
		known[t.Job] = true
	}
	return n
}

func kindOf(id string) string {
	if isVideo(id) {
		return "video"
	}
	return "chat"
}

func endOf(e Event) string {
	switch {
	case e.Job == "":
		return "unfinished"
	case e.Status == "failed":
		return "failed (" + e.Code + ")"
	default:
		return e.Status
	}
}

// takeovers counts the changes of writer after the first submission. Before that, any replica may
// have admitted the job. takeovers ignores cancellations, because any replica may write them.
func takeovers(log []Event) int {
	n, writer := 0, ""
	for _, e := range log {
		if e.FirstSubmit.IsZero() || e.Status == "cancelled" {
			continue
		}
		if writer != "" && e.Writer != writer {
			n++
		}
		writer = e.Writer
	}
	return n
}

func (c *Counts) asked(f *facts) {
	for _, t := range f.Calls {
		c.Asked[string(t.Op)]++
		if !t.Good() && t.Op != OpPeek {
			c.Errors[complaint(t.Lost, t.Code)]++
		}
	}
	for _, series := range group(f.Calls, func(t Call) string { return t.Client + "\x00" + t.Series }) {
		by, worst := string(series[0].Op)+" by "+series[0].Ingress, longest(series)
		if series[0].Op != OpPeek && worst.Errors > 0 && worst.Lasted > c.Trouble[by].Lasted {
			c.Trouble[by] = worst
		}
	}
}

func (c *Counts) listed(f *facts) {
	for _, l := range f.Lists {
		c.Lists++
		switch {
		case !l.Good():
			c.Unlisted[complaint(l.Lost, l.Code)]++
		case l.Paged:
			c.Paged++
			c.Listed++
		default:
			c.Listed++
		}
	}
}

func complaint(lost, code string) string {
	if lost != "" {
		return "no answer"
	}
	return code
}

// troubles lists further codes that count as errors for a client, in addition to the passing ones.
// Other codes are regular answers.
var troubles = []string{"acceptance_unknown", "internal", "slow_reader", "task_not_found", "chat_not_found"}

func (t Call) trouble() bool {
	return t.Lost != "" || t.Passing() || slices.Contains(troubles, t.Code)
}

// longest returns the longest series of errors. A series ends when an answer begins. If that answer
// breaks off, it also begins the next series.
func longest(series []Call) Trouble {
	var worst, now Trouble
	keep := func(until time.Time, granted bool) {
		now.Lasted, now.Granted = until.Sub(now.From), granted
		if now.Errors > 0 && now.Lasted > worst.Lasted {
			worst = now
		}
	}
	for _, t := range series {
		if began := t.answeredAt(); !began.IsZero() {
			keep(began, true)
			now = Trouble{}
		}
		if !t.trouble() {
			continue
		}
		if now.Errors == 0 {
			now = Trouble{From: t.Asked, Op: t.Op}
			if !t.AnswerBegan.IsZero() {
				now.From = t.Time
			}
		}
		now.Errors++
		keep(t.Time, false)
	}
	return worst
}

// answeredAt returns when an answer began, or the zero time if none did.
func (t Call) answeredAt() time.Time {
	if t.AnswerBegan.IsZero() && !t.trouble() {
		return t.Time
	}
	return t.AnswerBegan
}
