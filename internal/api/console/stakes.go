package console

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

// stakes is what an operator should know before deciding about a letter.
type stakes struct {
	// Paid says what the upstream may have charged for already.
	Paid string
	// Redrive is whether the request can be sent again, and Attach whether a task of the upstream
	// can be followed.
	Redrive, Attach bool
	// RedriveCost and AttachCost say what these may cost.
	RedriveCost, AttachCost string
}

// stakesOf says what is at stake with a letter.
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

// letterCodes are the codes by which letters are chosen in the list: those that need most care.
var letterCodes = []errcode.Code{
	errcode.SubmissionUnknown, errcode.OrphanedSubmission, errcode.UpstreamRemoved, errcode.Poisoned, errcode.InvalidRequest,
}
