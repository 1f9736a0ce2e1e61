package joblog

// These are the limits of the log, as shares of its bytes. The first two apply to the bytes used
// plus jobBytes for each unfinished job. A submission may exceed them, but leaves a third of
// jobBytes for each unfinished job, which is enough to end it without a submission. The rest is for
// running jobs that need more, and for concurrent grants by several replicas (creditShare).
const (
	admitBelow  = 0.80 // new jobs
	spareBelow  = 0.85 // progress, events of inline chats and refusals, long replies
	submitBelow = 0.90 // submissions of accepted jobs
)

// jobBytes is reserved for each unfinished job. With JSON events, twice as much is reserved. It
// covers an ordinary job: its attempts, its end with a reply of SpareReply bytes, and the feed
// copy.
const jobBytes = 12 << 10

// Figures describes the capacity of the log, in bytes.
type Figures struct {
	// Used is the size of the stream, and Max its limit. If there is no limit, Max is not positive.
	Used, Max int64
	// Short is the part of Max that does not fit on the disk.
	Short int64
	// Reserved is jobBytes for each unfinished job.
	Reserved int64
	// Granted is the number of bytes that this replica has granted and that Used and Reserved may
	// not include yet.
	Granted int64
}

// AdmitLimit returns the limit for admitting jobs.
func (r Figures) AdmitLimit() int64 { return r.limit(admitBelow) }

// SubmitLimit returns the limit for submitting accepted jobs.
func (r Figures) SubmitLimit() int64 { return r.limit(submitBelow) }

// limit returns a share of Max minus Short. The reserve above the limits therefore remains a full
// share of Max, even if the disk is full.
func (r Figures) limit(share float64) int64 { return max(int64(share*float64(r.Max))-r.Short, 0) }

type purpose int

const (
	toAdmit purpose = iota
	toSpare
	toSubmit
)

// remaining returns the bytes that may be granted for a purpose. It is negative if the limit is
// exceeded.
func (r Figures) remaining(p purpose) int64 {
	switch p {
	case toAdmit:
		return r.AdmitLimit() - r.Used - r.Reserved - r.Granted
	case toSpare:
		return r.limit(spareBelow) - r.Used - r.Reserved - r.Granted
	default:
		// Keep a third of the reserve for the ends of waiting jobs. Retries may use up the rest.
		return r.SubmitLimit() - r.Used - r.Reserved/3 - r.Granted
	}
}
