package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nuid"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/plural"
)

type bulkCommand struct {
	Cancel  bulkCancelCommand  `cmd:"" help:"End the jobs that have not ended and match."`
	Redrive bulkRedriveCommand `cmd:"" help:"Send the requests of the letters that match again, as new jobs. Upstreams may charge for both."`
	Drop    bulkDropCommand    `cmd:"" help:"Remove the letters that match, and their bodies, for good."`
	Attach  bulkAttachCommand  `cmd:"" help:"Make new jobs of videos that upstreams have, by a list; nothing is submitted."`
}

// bulkFlags are those of all bulk commands.
type bulkFlags struct {
	Yes     bool   `help:"Do it; without it they are only counted."`
	Wait    bool   `help:"Follow it to its end." default:"true" negatable:""`
	Started string `help:"Id for it: called again with the same one, nothing is started twice. Default: a new one." name:"operation-id"`
}

type bulkCancelCommand struct {
	jobFilter `embed:""`
	bulkFlags `embed:""`
	All       bool `help:"All that have not ended, of all tenants, where nothing else chooses." name:"all"`
}

// Run cancels jobs.
func (c bulkCancelCommand) Run(ctx context.Context, o *operatorCommand, out io.Writer) error {
	filter, err := c.request(time.Now())
	if err != nil {
		return err
	}
	work := &genbusv1.OperationSpec_CancelJobs{CancelJobs: &genbusv1.CancelJobs{Filter: filter}}
	return c.run(ctx, o, out, "job", &genbusv1.StartOperationRequest{Spec: &genbusv1.OperationSpec{Work: work}, Everything: c.All})
}

// bulkLetters chooses the letters of a bulk command.
type bulkLetters struct {
	letterFilter `embed:""`
	bulkFlags    `embed:""`
	All          bool `help:"All letters, of all tenants, where nothing else chooses." name:"all"`
}

func (c bulkLetters) filter() *genbusv1.DeadLetterFilter {
	return &genbusv1.DeadLetterFilter{Kind: c.Kind, Tenant: c.Tenant, Code: c.Code}
}

type bulkRedriveCommand struct {
	bulkLetters `embed:""`
}

// Run redrives letters.
func (c bulkRedriveCommand) Run(ctx context.Context, o *operatorCommand, out io.Writer) error {
	work := &genbusv1.OperationSpec_RedriveDeadLetters{RedriveDeadLetters: &genbusv1.RedriveDeadLetters{Filter: c.filter()}}
	return c.run(ctx, o, out, "dead letter", &genbusv1.StartOperationRequest{Spec: &genbusv1.OperationSpec{Work: work}, Everything: c.All})
}

type bulkDropCommand struct {
	bulkLetters `embed:""`
}

// Run drops letters.
func (c bulkDropCommand) Run(ctx context.Context, o *operatorCommand, out io.Writer) error {
	work := &genbusv1.OperationSpec_DropDeadLetters{DropDeadLetters: &genbusv1.DropDeadLetters{Filter: c.filter()}}
	return c.run(ctx, o, out, "dead letter", &genbusv1.StartOperationRequest{Spec: &genbusv1.OperationSpec{Work: work}, Everything: c.All})
}

type bulkAttachCommand struct {
	bulkFlags `embed:""`
	List      string `arg:"" help:"File with a line for each letter: its sequence, and the upstream's id of the task where the letter has none. - for standard input."`
}

// Run attaches tasks.
func (c bulkAttachCommand) Run(ctx context.Context, o *operatorCommand, out io.Writer) error {
	tasks, err := readTasks(c.List)
	if err != nil {
		return err
	}
	work := &genbusv1.OperationSpec_AttachUpstreamTasks{AttachUpstreamTasks: &genbusv1.AttachUpstreamTasks{Tasks: tasks}}
	return c.run(ctx, o, out, "dead letter", &genbusv1.StartOperationRequest{Spec: &genbusv1.OperationSpec{Work: work}})
}

// readTasks reads the lines of a list. Empty ones are passed over.
func readTasks(name string) (tasks []*genbusv1.LetterTask, err error) {
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		defer func() { _ = f.Close() }() // nothing was written
		in = f
	}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		seq, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil || len(words) > 2 {
			return nil, wrongUse("line %d of %s must be the sequence of a letter, and the upstream's id of the task or nothing", n, name)
		}
		t := &genbusv1.LetterTask{Sequence: seq}
		if len(words) == 2 {
			t.UpstreamTaskId = words[1]
		}
		tasks = append(tasks, t)
	}
	return tasks, lines.Err()
}

// run counts what there is to do, starts it where that is wanted, and follows it.
func (c bulkFlags) run(ctx context.Context, o *operatorCommand, out io.Writer, what string, m *genbusv1.StartOperationRequest) error {
	p := printer{out: out, json: o.JSON}
	counted, err := c.start(ctx, o, out, m, true)
	if err != nil {
		return err
	}
	if !c.Yes {
		return p.say(counted, "%s%s %s as of %s; with --yes it is done%s", atLeast(counted), plural.Count(counted.GetTotal(), what), plural.Form(counted.GetTotal(), "matches", "match"), moment(counted.GetAsOf()), beyondCount(counted))
	}
	m.Id, m.AsOf = c.Started, counted.GetAsOf()
	if m.GetId() == "" {
		m.Id = nuid.Next()
	}
	op, err := c.start(ctx, o, out, m, false)
	if err != nil {
		return err
	}
	if !c.Wait {
		return p.say(op, "operation %s is to change %s%s%s", op.GetId(), atLeast(op), plural.Count(op.GetTotal(), what), beyondCount(op))
	}
	if !o.JSON {
		if err := p.say(op, "operation %s: %s%s as of %s%s", op.GetId(), atLeast(op), plural.Count(op.GetTotal(), what), moment(op.GetAsOf()), beyondCount(op)); err != nil {
			return err
		}
	}
	return o.follow(ctx, out, op)
}

func (c bulkFlags) start(ctx context.Context, o *operatorCommand, out io.Writer, m *genbusv1.StartOperationRequest, countOnly bool) (op *genbusv1.Operation, err error) {
	m.CountOnly = countOnly
	err = o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.StartOperation(ctx, m)
		op = answer.GetOperation()
		return answered(err)
	})
	return op, err
}

func atLeast(op *genbusv1.Operation) string {
	if op.GetTotalExact() {
		return ""
	}
	return "at least "
}

// beyondCount says what a count of jobs may lack.
func beyondCount(op *genbusv1.Operation) string {
	if op.GetTotalExact() || op.GetCompleteSince() == nil {
		return ""
	}
	return "; jobs that were accepted before " + moment(op.GetCompleteSince()) + " may be missing (limits.list_index)"
}

// followEvery is how often an operation is asked for.
const followEvery = time.Second

// follow prints how far an operation is until it ends, each call within the time limit. What
// ends the command leaves the operation as it is.
func (c *operatorCommand) follow(ctx context.Context, out io.Writer, op *genbusv1.Operation) error {
	p, last := printer{out: out, json: c.JSON}, ""
	for !hasEnded(op) {
		if line := progressLine(op); line != last && !c.JSON {
			last = line
			if err := p.say(op, "%s", line); err != nil {
				return err
			}
		}
		if broker.Wait(ctx, followEvery) != nil {
			return fmt.Errorf("operation %s goes on: see operator operations show %s: %w", op.GetId(), op.GetId(), context.Cause(ctx))
		}
		switch now, err := c.operation(ctx, out, op.GetId()); {
		case err == nil:
			op = now
		case exitCode(err) != exitUnavailable: // else another replica, or this one later, says more
			return err
		}
	}
	return p.operationEnd(op)
}

func (c *operatorCommand) operation(ctx context.Context, out io.Writer, id string) (op *genbusv1.Operation, err error) {
	err = c.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.GetOperation(ctx, &genbusv1.GetOperationRequest{Id: id})
		op = answer.GetOperation()
		return answered(err)
	})
	return op, err
}

func hasEnded(op *genbusv1.Operation) bool {
	s := op.GetProgress().GetState()
	return s != genbusv1.OperationProgress_STATE_RUNNING && s != genbusv1.OperationProgress_STATE_STOPPING
}

// operationEnd prints what became of an operation, and returns what the exit code has to say.
func (p printer) operationEnd(op *genbusv1.Operation) error {
	if err := p.operation(op); err != nil {
		return err
	}
	progress := op.GetProgress()
	switch {
	case progress.GetState() != genbusv1.OperationProgress_STATE_DONE:
		return errors.New(strings.TrimSpace(fmt.Sprintf("operation %s is %s %s", op.GetId(), stateWord(op), progress.GetCode())))
	case progress.GetFailed() > 0:
		return exitError{exitNotPossible, fmt.Errorf("%d stayed as %s", progress.GetFailed(), plural.Form(progress.GetFailed(), "it is", "they are"))}
	}
	return nil
}
