package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
)

// Copy stores a body a second time in a tenant's store, as Put does, so that either
// can be deleted without the other. ErrBodyLost says that there is nothing to copy.
func (s *Bodies) Copy(ctx context.Context, from Body, tenant, prefix string) (Body, error) {
	bucket := s.b.names.Bodies(tenant)
	if err := s.ensure(ctx, bucket); err != nil {
		return Body{}, err
	}
	r, err := s.Open(ctx, from)
	if err != nil {
		return Body{}, err
	}
	defer r.Close()
	return s.put(ctx, bucket, prefix, r, 0)
}

// Of finds what was stored with prefixes that begin with owner and a dash: of a job,
// by its id. What it gives has a bucket and a name only. Some of it may have been
// deleted already, or was never stored whole.
func (s *Bodies) Of(ctx context.Context, tenant, owner string) ([]Body, error) {
	bucket := s.b.names.Bodies(tenant)
	chunks := objectwrite.ChunksOf(bucket, "")
	subjects, err := s.subjects(ctx, bucket, chunks+owner+".>")
	out := make([]Body, 0, len(subjects))
	for subject := range subjects {
		out = append(out, Body{Bucket: bucket, Name: objectwrite.Name(strings.TrimPrefix(subject, chunks))})
	}
	return out, err
}

// Used is how many bytes a tenant's object store has; 0 where there is none. The most is
// Limits.BodiesMaxBytes.
func (s *Bodies) Used(ctx context.Context, tenant string) (bytes uint64, err error) {
	stream, err := s.b.Stream(ctx, objectwrite.Stream(s.b.names.Bodies(tenant)))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read the size of object store %s: %w", tenant, err)
	}
	return stream.CachedInfo().State.Bytes, nil
}

// subjects gives those that a tenant's object store has messages on; none where there
// is no such store.
func (s *Bodies) subjects(ctx context.Context, bucket, pattern string) (map[string]uint64, error) {
	stream, err := s.b.Stream(ctx, objectwrite.Stream(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(pattern))
	}
	if err != nil {
		return nil, fmt.Errorf("list bodies on %s: %w", pattern, err)
	}
	return info.State.Subjects, nil
}
