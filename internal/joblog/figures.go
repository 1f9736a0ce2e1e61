package joblog

// Limits of the log, as shares of its bytes. The first two apply to the bytes used plus jobBytes
// for each unfinished job. A submission may exceed them, but leaves each unfinished job a third of
// jobBytes, enough to end without a submission. The rest is for running jobs that need more, and
// for what replicas grant without seeing each other (creditShare).
const (
	admitBelow  = 0.80 // new jobs
	spareBelow  = 0.85 // progress, events of inline chats and refusals, long replies
	submitBelow = 0.90 // submissions of accepted jobs
)

// jobBytes is reserved for each unfinished job, and twice that with JSON events. It covers an
// ordinary job: its attempts, its end with a reply of SpareReply bytes, and the feed copy.
const jobBytes = 12 << 10

// Figures describes the capacity of the log, in bytes.
type Figures struct {
	// Used and Max come from the stream. Max is not positive if there is no limit.
	Used, Max int64
	// Short is the part of Max that does not fit on the disk.
	Short int64
	// Reserved is jobBytes for each unfinished job.
	Reserved int64
	// Granted is what this replica has granted and Used and Reserved may not include yet.
	Granted int64
}

// AdmitLimit returns the limit for admitting jobs.
func (r Figures) AdmitLimit() int64 { return r.limit(admitBelow) }

// SubmitLimit returns the limit for submitting accepted jobs.
func (r Figures) SubmitLimit() int64 { return r.limit(submitBelow) }

// limit returns a share of Max less Short. The reserve above the limits therefore stays a full
// share of Max on a full disk.
func (r Figures) limit(share float64) int64 { return max(int64(share*float64(r.Max))-r.Short, 0) }

type purpose int

const (
	toAdmit purpose = iota
	toSpare
	toSubmit
)

// left returns the bytes that may be granted for a purpose; negative if the limit is exceeded.
func (r Figures) left(p purpose) int64 {
	switch p {
	case toAdmit:
		return r.AdmitLimit() - r.Used - r.Reserved - r.Granted
	case toSpare:
		return r.limit(spareBelow) - r.Used - r.Reserved - r.Granted
	default:
		// Retries may use up the sum. The rest is for the ends of waiting jobs.
		return r.SubmitLimit() - r.Used - r.Reserved/3 - r.Granted
	}
}
