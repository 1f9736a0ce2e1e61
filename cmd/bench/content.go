package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
)

type contentCommand struct {
	common
	Size     fileSize      `help:"Size of the file, such as 8MiB or 2GiB." default:"2GiB"`
	Parallel int           `help:"Concurrent downloads, measured separately; 1 skips this." default:"4"`
	GRPC     bool          `help:"Also measure DownloadVideo." default:"true" negatable:"" name:"grpc"`
	Archive  fileSize      `help:"Size of the file copied to and read from the archive; 0 skips this." default:"256MiB"`
	Timeout  time.Duration `help:"Time limit of one measurement." default:"20m"`
}

// fileSize is a size on the command line, in the syntax of the configuration.
type fileSize int64

// UnmarshalText parses 1048576, 8MiB or 2GiB.
func (s *fileSize) UnmarshalText(text []byte) error {
	n, err := config.ParseSize(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a size; want a number of bytes, or one with KiB, MiB or GiB", text)
	}
	*s = fileSize(n)
	return nil
}

const (
	leastFile   = fileSize(config.MiB)
	maxFile     = fileSize(config.TiB)
	maxArchived = fileSize(2 * config.GiB)
	maxParallel = 256
)

func (c contentCommand) Validate() error {
	switch {
	case c.Size < leastFile || c.Size > maxFile:
		return fmt.Errorf("--size: %d is not between 1MiB and 1TiB", c.Size)
	case c.Archive != 0 && (c.Archive < leastFile || c.Archive > maxArchived):
		return fmt.Errorf("--archive: %d is not between 1MiB and 2GiB", c.Archive)
	case c.Parallel < 1 || c.Parallel > maxParallel:
		return fmt.Errorf("--parallel: %d is not between 1 and %d", c.Parallel, maxParallel)
	}
	return nil
}

type transfer struct {
	name     string
	title    string
	size     int64
	parallel int
	archive  bool // the service copies each result
	copied   bool // measures the copying instead of a download
	grpc     bool
}

func (c contentCommand) transfers() []transfer {
	size, archived := int64(c.Size), int64(c.Archive)
	var out []transfer
	for _, way := range []transfer{{name: "http", title: "HTTP"}, {name: "grpc", title: "gRPC", grpc: true}} {
		if way.grpc && !c.GRPC {
			continue
		}
		way.size, way.parallel = size, 1
		out = append(out, way)
		if c.Parallel > 1 {
			way.name += "-parallel"
			way.title += fmt.Sprintf(", %d at once", c.Parallel)
			way.parallel = c.Parallel
			out = append(out, way)
		}
	}
	if archived > 0 {
		out = append(out,
			transfer{name: "copy", title: "copy to the archive", size: archived, parallel: 1, archive: true, copied: true},
			transfer{name: "archive", title: "HTTP from the archive", size: archived, parallel: 1, archive: true})
	}
	return out
}

// contentResult is the result of one transfer. Sizes are in bytes, rates in 10^6 bytes per second.
type contentResult struct {
	Name        string  `json:"name"`
	Bytes       int64   `json:"bytes"` // over all downloads
	MBPerSecond float64 `json:"mb_per_second"`
	DirectMB    float64 `json:"direct_mb_per_second"`
	CPUPerGB    float64 `json:"service_cpu_seconds_per_gb"`
	IdleRSS     int64   `json:"idle_rss"`
	BaseRSS     int64   `json:"base_rss"`
	PeakRSS     int64   `json:"peak_rss"`
	Growth      int64   `json:"growth"`
	LoadAvg     string  `json:"loadavg"`
}

type contentReport struct {
	Machine   machine         `json:"machine"`
	Transfers []contentResult `json:"transfers"`
}

func (c contentCommand) Run(ctx context.Context) error {
	report, err := c.measure(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(report)
	}
	return report.print()
}

func (c contentCommand) measure(ctx context.Context) (contentReport, error) {
	report := contentReport{Machine: thisMachine()}
	w, err := c.open(ctx)
	if err != nil {
		return report, err
	}
	defer w.close()
	for _, t := range c.transfers() {
		r, err := w.transfer(ctx, t, c.Timeout)
		if err != nil {
			return report, fmt.Errorf("%s: %w", t.title, err)
		}
		report.Transfers = append(report.Transfers, r)
	}
	return report, nil
}

const aimGrowth = 16_000_000 // bytes, for any file

func (r contentReport) print() error {
	fmt.Printf("%s, %d cores, %s, load %s\n", r.Machine.CPU, r.Machine.Cores, r.Machine.Go, r.Machine.LoadAvg)
	t := table{title: "Files of results: memory of the service while they are read; MB is 10^6 bytes"}
	t.add("transfer", "MB", "MB/s", "direct MB/s", "service CPU s/GB", "idle RSS MB", "RSS before MB", "peak RSS MB", "over idle MB", "growth MB", "aim < 16 MB", "load")
	for _, x := range r.Transfers {
		t.add(x.Name, number(mb(x.Bytes)), number(x.MBPerSecond), number(x.DirectMB), number(x.CPUPerGB),
			number(mb(x.IdleRSS)), number(mb(x.BaseRSS)), number(mb(x.PeakRSS)), number(mb(x.PeakRSS-x.IdleRSS)), number(mb(x.Growth)), aim(x.Growth < aimGrowth), x.LoadAvg)
	}
	return t.write(os.Stdout)
}

func mb(n int64) float64 { return float64(n) / 1e6 }

type transferRun struct {
	transfer
	w    *workshop
	svc  *contentService
	task *genbusv1.VideoTask // whose file is read
	res  contentResult
}

// warmFile is the number of bytes transferred before the baseline is read.
const warmFile = int64(64 * config.MiB)

// transfer measures t with its own service, so that no transfer starts with the memory of an
// earlier one.
func (w *workshop) transfer(ctx context.Context, t transfer, timeout time.Duration) (contentResult, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	progressf("%s, %s", t.title, config.Size(t.size))
	sandbox, upstream, err := w.startSandbox(ctx)
	if err != nil {
		return contentResult{}, err
	}
	defer sandbox.kill()
	svc, err := w.startContent(ctx, t, upstream)
	if err != nil {
		return contentResult{}, err
	}
	defer svc.discard()
	r := &transferRun{transfer: t, w: w, svc: svc, res: contentResult{Name: t.title, Bytes: t.size * int64(t.parallel)}}
	if err := r.run(ctx); err != nil {
		return contentResult{}, err
	}
	svc.discard() // before removing its data
	return r.res, discardData(w, t.name)
}

func (r *transferRun) run(ctx context.Context) error {
	idle, err := quiet(ctx, r.svc.pid())
	if err != nil {
		return err
	}
	r.res.IdleRSS = idle.RSS
	if !r.copied {
		if err := r.create(ctx, r.size); err != nil {
			return err
		}
	}
	if err := r.pass(ctx, min(warmFile, r.size), 1); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	work := func(ctx context.Context) error { return r.pass(ctx, r.size, r.parallel) }
	if err := r.window(ctx, work); err != nil {
		return err
	}
	begin := time.Now()
	if err := r.each(ctx, r.parallel, r.direct); err != nil {
		return fmt.Errorf("from the upstream: %w", err)
	}
	r.res.DirectMB = mb(r.res.Bytes) / time.Since(begin).Seconds()
	r.res.LoadAvg = loadAverage()
	return r.profile(ctx, work)
}

// window runs work and measures the resources of the service.
func (r *transferRun) window(ctx context.Context, work func(context.Context) error) error {
	base, err := quiet(ctx, r.svc.pid())
	if err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	watching, stop := context.WithCancel(gctx)
	defer stop()
	begin, took, peak := time.Now(), time.Duration(0), int64(0)
	group.Go(func() (err error) {
		peak, err = peakRSS(watching, r.svc.pid())
		return err
	})
	group.Go(func() error {
		defer stop()
		err := work(gctx)
		took = time.Since(begin)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := quiet(ctx, r.svc.pid())
	if err != nil {
		return err
	}
	r.res.MBPerSecond = mb(r.res.Bytes) / took.Seconds()
	r.res.CPUPerGB = (after.CPU - base.CPU).Seconds() / (mb(r.res.Bytes) / 1000)
	r.res.BaseRSS, r.res.PeakRSS = base.RSS, max(base.RSS, peak, after.RSS)
	r.res.Growth = r.res.PeakRSS - r.res.BaseRSS
	return r.svc.alive()
}

// peakRSS returns the largest resident size of a process until ctx ends.
func peakRSS(ctx context.Context, pid int) (int64, error) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for peak := int64(0); ; {
		p, err := readProc(pid)
		if err != nil {
			return 0, err
		}
		peak = max(peak, p.RSS)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return peak, nil
		}
	}
}

// profile repeats work while taking a profile. It does not affect the results.
func (r *transferRun) profile(ctx context.Context, work func(context.Context) error) error {
	if r.svc.pprof == "" {
		return nil
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return work(gctx) })
	group.Go(func() error { return r.w.profile(gctx, r.svc.service, "content-"+r.name, time.Second) })
	return group.Wait()
}

// pass transfers the first n bytes of the file, several times in parallel.
func (r *transferRun) pass(ctx context.Context, n int64, times int) error {
	switch {
	case r.copied:
		return r.create(ctx, n)
	case r.grpc:
		return r.each(ctx, times, func(ctx context.Context) error { return r.svc.download(ctx, r.task.GetId(), n) })
	default:
		address := r.svc.url + "/v1/videos/" + r.task.GetId() + "/content"
		return r.each(ctx, times, func(ctx context.Context) error { return r.svc.get(ctx, address, n, r.size) })
	}
}

// direct reads the file from the upstream.
func (r *transferRun) direct(ctx context.Context) error {
	return r.svc.get(ctx, r.task.GetVideos()[0].GetUrl(), r.size, r.size)
}

func (r *transferRun) each(ctx context.Context, times int, f func(context.Context) error) error {
	group, gctx := errgroup.WithContext(ctx)
	for range times {
		group.Go(func() error { return f(gctx) })
	}
	return group.Wait()
}

// create creates the task whose file is read. With archive, it checks that the copy is complete.
func (r *transferRun) create(ctx context.Context, size int64) (err error) {
	if r.task, err = r.svc.complete(ctx, size); err != nil {
		return err
	}
	if copied := int64(r.task.GetVideos()[0].GetArchived().GetSize()); r.archive && copied != size {
		return fmt.Errorf("the archive has %d of %d bytes: %s", copied, size, r.task.GetArchive().GetError().GetMessage())
	}
	return nil
}
