package main

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

type procStat struct {
	CPU time.Duration // user and system time, in steps of 10 ms
	RSS int64         // bytes
}

func readProc(pid int) (procStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procStat{}, fmt.Errorf("resources of process %d: %w", pid, err)
	}
	s, err := p.Stat()
	if err != nil {
		return procStat{}, fmt.Errorf("resources of process %d: %w", pid, err)
	}
	return procStat{CPU: time.Duration(s.CPUTime() * float64(time.Second)), RSS: int64(s.ResidentMemory())}, nil
}

type procs []int

func (p procs) read() ([]procStat, error) {
	out := make([]procStat, len(p))
	for i, pid := range p {
		s, err := readProc(pid)
		if err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

// schedulerWait returns how long the threads of this process were ready to run and waited for a
// processor.
func schedulerWait() (sum time.Duration) {
	threads, _ := procfs.AllThreads(os.Getpid())
	for _, thread := range threads {
		s, _ := thread.Schedstat() // ignores a thread that has just ended
		sum += time.Duration(s.WaitingNanoseconds)
	}
	return sum
}
