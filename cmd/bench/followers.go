package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/joblog"
	events "github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

type followersCommand struct {
	Chats   int           `help:"Running chats." default:"1000"`
	PerChat int           `help:"Followers of each chat." default:"10"`
	Rate    float64       `help:"Chunks of each chat in a second." default:"2"`
	Late    int           `help:"Followers that join one running chat at the same time." default:"1500"`
	Videos  int           `help:"Followers of one silent video each, after the chats." default:"0"`
	Hold    time.Duration `help:"Measurement time of each part." default:"25s"`
	Timeout time.Duration `help:"Time limit of the whole run." default:"9m"`
	JSON    bool          `help:"Print the results as JSON instead of a table." name:"json"`
	Profile string        `help:"Directory for a CPU profile of each part." type:"path"`
}

// followersPart is the result of one part of the run. Times are in seconds. A delay starts just
// before a chunk is published and ends when a follower has received it.
type followersPart struct {
	Part      string  `json:"part"`
	Followers int     `json:"followers"`
	Chunks    float64 `json:"chunks_per_second"`
	Delivered float64 `json:"delivered_per_second"`
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
	Max       float64 `json:"max"`
	Ended     int64   `json:"followers_ended"`
	// Reads are JetStream requests for messages. Looks are requests for the state of a stream.
	Reads float64 `json:"reads_per_second"`
	Looks float64 `json:"looks_per_second"`
	Cores float64 `json:"cores"`
	// Waited is the average number of threads waiting for a processor. It shows how much other work
	// on the machine adds to the delays.
	Waited  float64 `json:"threads_waiting"`
	LoadAvg string  `json:"loadavg"`
	// Joined is the time until every new follower had its first item.
	Joined float64 `json:"joined"`
}

type followersReport struct {
	Machine machine         `json:"machine"`
	Parts   []followersPart `json:"parts"`
}

func (c followersCommand) Validate() error {
	switch {
	case c.Chats < 1 || c.Chats > maxTasks || c.PerChat < 1 || c.Videos < 0 || c.Videos > maxTasks:
		return fmt.Errorf("--chats and --videos: not between 1 and %d", maxTasks)
	case c.Rate <= 0 || c.Late < 0 || c.Hold < time.Second:
		return errors.New("--rate needs more than 0, --late 0 or more, --hold 1s")
	}
	return nil
}

func (c followersCommand) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if c.Profile != "" {
		if err := os.MkdirAll(c.Profile, 0o750); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "bench-followers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := openFollowers(ctx, c, dir)
	if err != nil {
		return err
	}
	defer f.stop()
	defer cancel() // before stop, which waits for the followers
	for _, part := range []func(context.Context) error{f.steady, f.late, f.videos} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(f.report)
	}
	return f.report.write()
}

type followersRun struct {
	cmd    followersCommand
	b      *broker.Broker
	enc    events.Encoder
	tasks  *joblog.Log
	chats  *chatlog.Log
	spy    *nats.Conn
	stop   func()
	names  []subject.JobName
	report followersReport

	reads, looks, sent, ended atomic.Int64
	followers                 sync.WaitGroup
	count                     int
}

func openFollowers(ctx context.Context, c followersCommand, dir string) (*followersRun, error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	b, err := broker.Open(ctx, broker.Options{
		Names: subject.Default(), Logger: logger,
		Embedded: broker.Embedded{DataDir: dir, NoSync: true, Listen: "127.0.0.1:0"},
	})
	if err != nil {
		return nil, err
	}
	f := &followersRun{cmd: c, b: b, enc: events.Encoder{Names: b.Names()}, report: followersReport{Machine: thisMachine()}}
	if err := b.Streams().Ensure(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	f.tasks = joblog.New(joblog.Options{Broker: b, Metrics: telemetry.NewMetrics("bench"), Encoder: f.enc, Logger: logger})
	ctx, cancel := context.WithCancel(ctx)
	wait, err := f.tasks.Start(ctx)
	f.stop = func() {
		cancel()
		f.followers.Wait()
		if wait != nil {
			wait()
		}
		if f.spy != nil {
			f.spy.Close()
		}
		_ = b.Close()
	}
	if err == nil {
		err = f.watch()
	}
	if err != nil {
		f.stop()
		return nil, err
	}
	f.chats = chatlog.New(b, f.tasks, broker.NewBodies(b), chatlog.Options{})
	return f, nil
}

// watch counts requests to JetStream with its own connection.
func (f *followersRun) watch() (err error) {
	if f.spy, err = nats.Connect(f.b.ClientURL(), nats.Name("bench")); err != nil {
		return err
	}
	for subj, n := range map[string]*atomic.Int64{"$JS.API.STREAM.MSG.GET.*": &f.reads, "$JS.API.DIRECT.GET.>": &f.reads, "$JS.API.STREAM.INFO.*": &f.looks} {
		if _, err := f.spy.Subscribe(subj, func(*nats.Msg) { n.Add(1) }); err != nil {
			return err
		}
	}
	return f.spy.Flush()
}

// steady measures followers that joined before the first chunk.
func (f *followersRun) steady(ctx context.Context) error {
	for i := range f.cmd.Chats {
		e, err := f.start(ctx, subject.Chat, fmt.Sprintf("chat_%026d", i))
		if err != nil {
			return err
		}
		f.names = append(f.names, e.Name())
	}
	begin := time.Now()
	var first sync.WaitGroup
	m := &delays{}
	for _, n := range f.names {
		for range f.cmd.PerChat {
			f.follow(ctx, n, &first, m)
		}
	}
	first.Wait()
	joined := time.Since(begin).Seconds()
	progressf("%d followers of %d chats joined within %.1f s", f.count, len(f.names), joined)
	f.followers.Go(func() { f.publish(ctx) })
	if err := pause(ctx, f.cmd.Hold/5); err != nil {
		return err
	}
	m.from.Store(time.Now().UnixNano())
	return f.measure(ctx, followersPart{Part: "all there", Joined: joined}, m)
}

// late adds followers to one chat and measures all.
func (f *followersRun) late(ctx context.Context) error {
	if f.cmd.Late == 0 {
		return nil
	}
	m := &delays{}
	everyone.Store(m)
	m.from.Store(time.Now().UnixNano())
	var first sync.WaitGroup
	begin := time.Now()
	for range f.cmd.Late {
		f.follow(ctx, f.names[0], &first, m)
	}
	joined := make(chan float64, 1)
	go func() {
		first.Wait()
		joined <- time.Since(begin).Seconds()
	}()
	if err := f.measure(ctx, followersPart{Part: fmt.Sprintf("%d join late", f.cmd.Late)}, m); err != nil {
		return err
	}
	select {
	case last := <-joined:
		f.report.Parts[len(f.report.Parts)-1].Joined = last
	default:
		return fmt.Errorf("not all late followers had their first item within %s", f.cmd.Hold)
	}
	return nil
}

// videos measures the cost of followers that receive no events.
func (f *followersRun) videos(ctx context.Context) error {
	if f.cmd.Videos == 0 {
		return nil
	}
	begin := time.Now()
	var first sync.WaitGroup
	for i := range f.cmd.Videos {
		e, err := f.start(ctx, subject.Video, fmt.Sprintf("video_%026d", i))
		if err != nil {
			return err
		}
		first.Add(1)
		f.count++
		f.followers.Go(func() {
			got := sync.OnceFunc(first.Done)
			for _, err := range f.tasks.Follow(ctx, e.Name(), 0) {
				if err != nil && ctx.Err() == nil {
					f.ended.Add(1)
				}
				got()
			}
		})
	}
	first.Wait()
	m := &delays{}
	everyone.Store(m)
	m.from.Store(time.Now().UnixNano())
	return f.measure(ctx, followersPart{Part: fmt.Sprintf("and %d of videos", f.cmd.Videos), Joined: time.Since(begin).Seconds()}, m)
}

func (f *followersRun) start(ctx context.Context, kind subject.Kind, id string) (joblog.Entry, error) {
	e, err := f.tasks.Commit(ctx, task.FromWork(&genbusv1.WorkItem{
		Id: id, Kind: string(kind), Tenant: tenant, Route: "r", Model: "m", Fingerprint: []byte("fp"), Stream: true, AcceptedAt: timestamppb.Now(),
	}), 0)
	chat, ok := e.Job.(*genbusv1.Chat)
	if err != nil || !ok {
		return e, err
	}
	next, err := task.Started(chat, time.Now(), task.Attempt{Upstream: "u", Deadline: time.Now().Add(time.Hour)})
	if err != nil {
		return e, err
	}
	return f.tasks.Commit(ctx, next, e.Seq)
}

// everyone collects the delays of all followers from the second part on.
var everyone atomic.Pointer[delays]

func (f *followersRun) follow(ctx context.Context, n subject.JobName, first *sync.WaitGroup, m *delays) {
	first.Add(1)
	f.count++
	joined := time.Now().UnixNano()
	f.followers.Go(func() {
		got := sync.OnceFunc(first.Done)
		for item, err := range f.chats.Follow(ctx, n, "") {
			got()
			if err != nil {
				if ctx.Err() == nil && f.ended.Add(1) == 1 {
					progressf("a follower ended: %v", err)
				}
				return
			}
			if item.Chunk == nil {
				continue
			}
			if later := everyone.Load(); later != nil {
				m = later
			}
			for _, block := range item.Chunk.GetBlocks() {
				m.add(block, joined)
			}
		}
	})
}

// blockHead is the beginning of a block. The send time follows as a number with sentDigits digits.
const (
	blockHead  = `{"sent":`
	sentDigits = 19
)

const blockPad = "a block of a chat completion has some two hundred bytes, of which a word or two are its content, and the rest names the model, the id, the choice"

// publish publishes the chunks of all chats, evenly spread, until ctx ends.
func (f *followersRun) publish(ctx context.Context) {
	every := time.Duration(float64(time.Second) / (f.cmd.Rate * float64(len(f.names))))
	next := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		if next = next.Add(every); time.Until(next) > time.Millisecond {
			_ = pause(ctx, time.Until(next))
		}
		n, index := f.names[i%len(f.names)], uint64(i/len(f.names))
		now := time.Now()
		block := fmt.Appendf(nil, `%s%0*d,"pad":%q}`, blockHead, sentDigits, now.UnixNano(), blockPad)
		m, err := f.enc.Chunk(ctx, n.Tenant, &genbusv1.ChatChunk{Id: n.ID, Attempt: 1, Index: index, Time: timestamppb.New(now), Blocks: [][]byte{block}})
		if err == nil {
			err = f.send(ctx, m)
		}
		if err != nil && ctx.Err() == nil {
			progressf("publish: %v", err)
			return
		}
		f.sent.Add(1)
	}
}

// send waits while too many messages await their ack.
func (f *followersRun) send(ctx context.Context, m *nats.Msg) error {
	for {
		_, err := f.b.JetStream().PublishMsgAsync(m)
		if !errors.Is(err, jetstream.ErrTooManyStalledMsgs) || ctx.Err() != nil {
			return err
		}
	}
}

// measure waits for the part to end and adds it to the report.
func (f *followersRun) measure(ctx context.Context, p followersPart, m *delays) error {
	if f.cmd.Profile != "" {
		out, err := os.Create(filepath.Join(f.cmd.Profile, fmt.Sprintf("followers-%d.cpu.pprof", len(f.report.Parts)+1)))
		if err != nil {
			return err
		}
		defer func() { _ = out.Close() }()
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	progressf("%s: %d followers", p.Part, f.count)
	begin := time.Now()
	cpu, err := readProc(os.Getpid())
	if err != nil {
		return err
	}
	waited := schedulerWait()
	reads, looks, sent := f.reads.Load(), f.looks.Load(), f.sent.Load()
	if err := pause(ctx, f.cmd.Hold); err != nil {
		return err
	}
	after, err := readProc(os.Getpid())
	if err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	p.Followers, p.Ended, p.LoadAvg = f.count, f.ended.Load(), loadAverage()
	p.Reads, p.Looks = float64(f.reads.Load()-reads)/took, float64(f.looks.Load()-looks)/took
	p.Chunks, p.Delivered = float64(f.sent.Load()-sent)/took, float64(m.count.Load())/took
	p.P50, p.P99, p.Max = m.quantile(0.5), m.quantile(0.99), m.quantile(1)
	p.Waited = (schedulerWait() - waited).Seconds() / took
	p.Cores = (after.CPU - cpu.CPU).Seconds() / took
	f.report.Parts = append(f.report.Parts, p)
	return nil
}

func (r followersReport) write() error {
	fmt.Printf("%s, %d cores, %s, load %s\n", r.Machine.CPU, r.Machine.Cores, r.Machine.Go, r.Machine.LoadAvg)
	t := table{title: "From the publish of a chunk to its follower"}
	t.add("part", "followers", "chunks/s", "delivered/s", "p50 ms", "p99 ms", "max ms", "reads/s", "looks/s", "joined s", "cores", "waiting", "ended", "load")
	for _, p := range r.Parts {
		t.add(p.Part, fmt.Sprint(p.Followers), number(p.Chunks), number(p.Delivered), number(1000*p.P50), number(1000*p.P99), number(1000*p.Max),
			number(p.Reads), number(p.Looks), number(p.Joined), number(p.Cores), number(p.Waited), fmt.Sprint(p.Ended), p.LoadAvg)
	}
	return t.write(os.Stdout)
}
