package command

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// negative matches the start of a negative number or duration. No flag starts like this.
var negative = regexp.MustCompile(`^-\.?[0-9]`)

// JoinNegative joins a flag and its negative value into one argument. Otherwise, the parser would
// take the value for another flag, and the command could not report which values it accepts.
func JoinNegative(args []string) []string {
	args = slices.Clone(args)
	for i := 0; i+1 < len(args) && args[i] != "--"; i++ {
		if strings.HasPrefix(args[i], "--") && !strings.Contains(args[i], "=") && negative.MatchString(args[i+1]) {
			args = slices.Replace(args, i, i+2, args[i]+"="+args[i+1])
		}
	}
	return args
}

// CheckTimeout rejects a --timeout that leaves no time for a call.
func CheckTimeout(limit time.Duration) error {
	if limit <= 0 {
		return WrongUse("--timeout: %s must be more than 0, such as 1m", limit)
	}
	return nil
}
