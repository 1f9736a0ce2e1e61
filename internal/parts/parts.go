// Package parts builds the components that every replica needs, such as the job log and its index,
// the queue, the quotas and admission. It does not run jobs or serve callers. Packages consumer and
// service build on it.
package parts

import (
	"context"
	"log/slog"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/operator/erasure"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
)

// Options holds the dependencies of Parts. The caller must close Broker and Routes.
type Options struct {
	Config  *config.Live
	Broker  *broker.Broker
	Routes  *routes.Table
	Metrics *telemetry.Metrics
	Tracing telemetry.Tracing
	Logger  *slog.Logger
}

// Parts holds the components of one replica. Several replicas may share a process.
type Parts struct {
	Options
	Content         *content.Reader // must be closed by the caller of New
	Encoder         publisher.Encoder
	Log             *joblog.Log
	Index           *jobindex.Index
	Bodies          *broker.Bodies
	Uploads         *natsreq.Uploads
	DeadLetters     deadletter.Store
	DeadLetterQuota *quota.DeadLetterQuota
	Queue           *queue.Queue
	Admission       *admission.Admission
	Eraser          erasure.Eraser
	Chats           *chatlog.Log
}

// New builds the parts without starting them.
func New(o Options) *Parts {
	cfg := o.Config.Now() // changes to settings read here need a restart
	p := &Parts{Options: o, Content: content.NewReader(content.Options{})}
	p.Encoder = publisher.Encoder{Names: o.Broker.Names(), Encoding: publisher.Encoding(cfg.Events.Encoding)}
	p.Log = joblog.New(joblog.Options{
		Broker: o.Broker, Encoder: p.Encoder, Metrics: o.Metrics, Logger: o.Logger, ReaderBuffer: int(cfg.Limits.SlowReaderBytes),
	})
	p.Index = jobindex.New(jobindex.Options{
		Log: p.Log, Broker: o.Broker, Metrics: o.Metrics, Logger: o.Logger, Mode: indexMode(cfg), Size: cfg.Limits.ListIndex,
		Able: func() error { // replicas with the index also enforce deadlines
			_, err := o.Broker.Clock().Now()
			return err
		},
	})
	p.Bodies = broker.NewBodies(o.Broker)
	p.Uploads = natsreq.NewUploads(p.Bodies, o.Logger)
	p.DeadLetters = deadletter.Store{Broker: o.Broker, Bodies: p.Bodies, Metrics: o.Metrics, Logger: o.Logger}
	p.DeadLetterQuota = quota.NewDeadLetterQuota(o.Config, o.Broker)
	p.Queue = queue.New(o.Config, o.Broker, p.Log, p.DeadLetterQuota)
	p.Admission = admission.New(admission.Options{
		Config: o.Config, Broker: o.Broker, Log: p.Log, Index: p.Index, Bodies: p.Bodies, Queue: p.Queue, DeadLetterQuota: p.DeadLetterQuota, Metrics: o.Metrics,
	})
	p.Eraser = erasure.Eraser{Broker: o.Broker, Queue: p.Queue, Log: p.Log, Index: p.Index, Bodies: p.Bodies}
	p.Chats = chatlog.New(o.Broker, p.Log, p.Bodies, chatlog.Options{ReaderBuffer: int(cfg.Limits.SlowReaderBytes)})
	return p
}

// indexMode returns the index mode of this replica. A replica with an embedded broker is alone and
// always keeps the index.
func indexMode(cfg *config.Config) jobindex.Mode {
	if cfg.NATS.Embedded() {
		return jobindex.Alone
	}
	return jobindex.Mode(cfg.Index)
}

// StartLog starts the log and then the index. Register the observers of both before calling
// StartLog, because they are called for every job that is already in the log. Both run until ctx
// ends or end is called. end waits until they have stopped.
func (p *Parts) StartLog(ctx context.Context) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	logEnded, err := p.Log.Start(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	indexEnded, err := p.Index.Start(ctx)
	if err != nil {
		cancel()
		logEnded()
		return nil, err
	}
	return func() {
		cancel()
		indexEnded()
		logEnded()
	}, nil
}
