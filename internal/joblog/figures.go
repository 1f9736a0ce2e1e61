package joblog

// The limits of the log, as shares of its bytes. The first two are limits of one sum: what is
// used, and jobBytes for each unfinished job. A submission may exceed them, but leaves each
// unfinished job a third of jobBytes, which an end without a submission takes. The rest of the log
// is for jobs in work that take more, and for what replicas do not see of each other (creditShare).
const (
	admitBelow  = 0.80 // a new job
	spareBelow  = 0.85 // progress, events of inline chats and of refusals, long replies
	submitBelow = 0.90 // a submission of an accepted job
)

// jobBytes is reserved for each unfinished job, twice that with JSON events. An ordinary job writes
// no more of what it needs: its attempts, its end with a reply of SpareReply bytes, and the end's
// feed copy.
const jobBytes = 12 << 10

// Figures are what is known of the bytes of the log.
type Figures struct {
	// Used and Max are the stream's own figures; without a limit Max is not positive.
	Used, Max int64
	// Short is what the disk under the stream does not have of Max.
	Short int64
	// Reserved is jobBytes for each unfinished job.
	Reserved int64
	// Granted is what this replica has granted, and Used and Reserved may not have yet.
	Granted int64
}

// AdmitLimit is the number of bytes up to which jobs are admitted.
func (r Figures) AdmitLimit() int64 { return r.limit(admitBelow) }

// SubmitLimit is the number of bytes up to which accepted jobs are submitted.
func (r Figures) SubmitLimit() int64 { return r.limit(submitBelow) }

// limit is a share of the log. What the disk is short of lowers each limit by all of it: the part
// above the limits is a share of Max, however full the disk is.
func (r Figures) limit(share float64) int64 { return max(int64(share*float64(r.Max))-r.Short, 0) }

// purpose is what bytes are asked for.
type purpose int

const (
	toAdmit purpose = iota
	toSpare
	toSubmit
)

// left is what may be granted for a purpose; below zero where it is used up.
func (r Figures) left(p purpose) int64 {
	switch p {
	case toAdmit:
		return r.AdmitLimit() - r.Used - r.Reserved - r.Granted
	case toSpare:
		return r.limit(spareBelow) - r.Used - r.Reserved - r.Granted
	default:
		// Retries may use up the sum. What is left then is for the ends of the jobs that wait.
		return r.SubmitLimit() - r.Used - r.Reserved/3 - r.Granted
	}
}
