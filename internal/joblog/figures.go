package joblog

// The limits of the log, as shares of its bytes. What is used counts for each. So does, for a
// new job, the rest of the lives of all unfinished jobs; for what jobs can do without, the
// rest of their shortest whole lives, so that no long reply takes the room in which another
// job would be submitted; and for a submission, their ends. What jobs in work write from
// their submission on is above all three: the configuration leaves config.EndBytes for each
// of them in a tenth of the log. The last 3 % are for what the replicas do not see of each
// other (creditShare).
const (
	admitBelow  = 0.80 // a new job
	spareBelow  = 0.85 // progress, events of inline chats and of refusals, long replies
	submitBelow = 0.87 // a submission of an accepted job
)

// Figures are what is known of the bytes of the log.
type Figures struct {
	// Used and Max are the stream's own figures; without a limit Max is not positive.
	Used, Max int64
	// Short is what the disk under the stream does not have of Max.
	Short int64
	// Reserved is what the accepted, unfinished jobs are still to write, those included
	// that are just being accepted; Shortest what they would write if nothing were written that
	// they can do without, and Ends if all of them ended now.
	Reserved, Shortest, Ends int64
}

// AdmitLimit is the number of bytes up to which jobs are admitted.
func (r Figures) AdmitLimit() int64 { return r.limit(admitBelow) }

// SubmitLimit is the number of bytes up to which accepted jobs are submitted.
func (r Figures) SubmitLimit() int64 { return r.limit(submitBelow) }

// limit is a share of the log. What the disk is short of lowers it whole: what is kept above
// it for the ends is a share of Max, however full the disk is.
func (r Figures) limit(share float64) int64 { return max(int64(share*float64(r.Max))-r.Short, 0) }

// purpose is what room is asked for.
type purpose int

const (
	toAdmit purpose = iota
	toSpare
	toSubmit
	purposes // how many there are
)

// left is the room for a purpose; below zero where there is none.
func (r Figures) left(p purpose) int64 {
	switch p {
	case toAdmit:
		return r.AdmitLimit() - r.Used - r.Reserved
	case toSpare:
		return r.limit(spareBelow) - r.Used - r.Shortest
	default:
		return r.SubmitLimit() - r.Used - r.Ends
	}
}
