package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc/<pid>/stat: 100 per second on
// every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// procStat is what one process has used so far.
type procStat struct {
	CPU time.Duration // user and system time, in steps of clockTick
	RSS int64         // bytes
}

// readProc reads /proc/<pid>/stat.
func readProc(pid int) (procStat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, fmt.Errorf("resources of process %d: %w", pid, err)
	}
	return parseProcStat(string(b), int64(os.Getpagesize()))
}

// parseProcStat reads a line of proc(5). The second field is a name that may
// hold spaces and parentheses, so the fields are counted from the last one.
func parseProcStat(line string, pageSize int64) (procStat, error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return procStat{}, errors.New("proc stat: no command name")
	}
	fields := strings.Fields(line[end+1:]) // fields[0] is field 3, the state
	const utime, stime, rss = 14 - 3, 15 - 3, 24 - 3
	if len(fields) <= rss {
		return procStat{}, fmt.Errorf("proc stat: %d fields after the name, want more than %d", len(fields), rss)
	}
	var n [3]int64
	for i, at := range []int{utime, stime, rss} {
		v, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("proc stat: field %d: %w", at+3, err)
		}
		n[i] = v
	}
	return procStat{CPU: time.Duration(n[0]+n[1]) * clockTick, RSS: n[2] * pageSize}, nil
}

// procs reads several processes at once.
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

// schedulerWait is how long the threads of this process, all together, were ready to run
// and waited for a processor: what other work on the machine took from them.
func schedulerWait() time.Duration {
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return 0
	}
	var sum time.Duration
	for _, name := range files {
		b, err := os.ReadFile(name)
		if fields := strings.Fields(string(b)); err == nil && len(fields) > 1 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64) // a thread that has just ended counts for nothing
			sum += time.Duration(ns)
		}
	}
	return sum
}
