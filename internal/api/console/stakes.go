package console

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

// stakes describes the possible costs of a decision about a dead letter.
type stakes struct {
	// Paid describes charges that the upstream may already have made.
	Paid string
	// Redrive is set if the request can be sent again, and Attach if an upstream task can be
	// followed.
	Redrive, Attach bool
	// RedriveCost and AttachCost describe what these actions may cost.
	RedriveCost, AttachCost string
}

// stakesOf returns the stakes of a dead letter.
func stakesOf(l *genbusv1.StoredDeadLetter) stakes {
	letter := l.GetLetter()
	s := stakes{
		Paid: "Nothing was submitted for it.", Redrive: letter.GetCut() == nil, RedriveCost: "It costs one job.",
		Attach:     l.GetAttachable(),
		AttachCost: "It costs nothing, because nothing is submitted.",
	}
	switch code := errcode.Code(letter.GetError().GetCode()); {
	case code == errcode.SubmissionUnknown:
		s.Paid = "A submission got no answer: the upstream may have a task and charge for it."
		s.RedriveCost = "It may be paid twice. First look for the task at the upstream, and attach it if it exists."
	case code == errcode.OrphanedSubmission:
		s.Paid = "The upstream has a task that no job follows and charges for it."
		s.RedriveCost = "It makes a second task; both are paid."
	case l.GetRejected():
	case letter.GetAttempt() > 0:
		s.Paid = "It was submitted before it failed; the upstream may have a task."
		s.RedriveCost = "It may be paid twice if the upstream has its task."
	}
	return s
}

// deadLetterCodes are the error codes that the list of dead letters offers as filters. Dead letters
// with these codes need the most care.
var deadLetterCodes = []string{
	string(errcode.SubmissionUnknown), string(errcode.OrphanedSubmission), string(errcode.UpstreamRemoved), string(errcode.Poisoned), string(errcode.InvalidRequest),
}
