package command

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// negative is how a negative number or duration begins. No flag does.
var negative = regexp.MustCompile(`^-\.?[0-9]`)

// JoinNegative makes one argument of a flag and its negative value, which the parser would take
// for another flag: it would not reach the command, which can say what it wants.
func JoinNegative(args []string) []string {
	args = slices.Clone(args)
	for i := 0; i+1 < len(args) && args[i] != "--"; i++ {
		if strings.HasPrefix(args[i], "--") && !strings.Contains(args[i], "=") && negative.MatchString(args[i+1]) {
			args = slices.Replace(args, i, i+2, args[i]+"="+args[i+1])
		}
	}
	return args
}

// CheckTimeout checks the value of --timeout, with which no call would have time.
func CheckTimeout(limit time.Duration) error {
	if limit <= 0 {
		return WrongUse("--timeout: %s must be more than 0, such as 1m", limit)
	}
	return nil
}
