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

// childEnv is the environment variable that turns the test binary into a child process. Its value
// selects the child's behaviour.
const childEnv = "FAULTTEST_CHILD"

// beChild runs the child and returns its exit status.
func beChild(act string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	word, arg, _ := strings.Cut(act, " ")
	switch word {
	case "fail":
		fmt.Println("cannot go on:", arg)
		return 3
	case "beat": // prints a line every few milliseconds
		for {
			select {
			case <-time.After(2 * time.Millisecond):
				fmt.Println("beat", os.Getpid())
			case <-term:
				fmt.Println("bye")
				return 0
			}
		}
	default: // leash: runs until stdin ends
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return 1
		}
		return 0
	}
}
