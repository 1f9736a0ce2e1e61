package faultinject

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// childEnv makes the test binary a child of the process tests.
const childEnv = "FAULTTEST_CHILD"

// beChild is the child: it acts as it is told and gives its exit status.
func beChild(act string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	word, arg, _ := strings.Cut(act, " ")
	switch word {
	case "fail":
		fmt.Println("cannot go on:", arg)
		return 3
	case "beat": // a line every few milliseconds
		for {
			select {
			case <-time.After(2 * time.Millisecond):
				fmt.Println("beat", os.Getpid())
			case <-term:
				fmt.Println("bye")
				return 0
			}
		}
	default: // the leash
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return 1
		}
		return 0
	}
}
