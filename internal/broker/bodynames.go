package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
)

// Copy stores a second copy of a body in a tenant's store, like Put, so that each copy can be
// deleted independently. It returns ErrBodyLost if the original is missing.
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

// Of lists the bodies whose names begin with owner, which is a job ID, and a dash. Only Bucket and
// Name are set in the results. Some bodies may already be deleted or may be incomplete.
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

// Used returns the number of bytes in a tenant's object store, or 0 if there is none.
// Limits.BodiesMaxBytes is the limit for new bodies.
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

// subjects returns the subjects of a bucket that match pattern, with their message counts. It
// returns nil if the bucket does not exist.
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
