package broker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Copy stores a body a second time, as name in the tenant's store, so that either
// can be deleted without the other. Like that of Put it is always stored, whatever
// the store's limit. ErrBodyLost says that there is nothing to copy.
func (s *Bodies) Copy(ctx context.Context, from Body, tenant, name string) (Body, error) {
	bucket := s.b.names.Bodies(tenant)
	if err := s.ensure(ctx, bucket); err != nil {
		return Body{}, err
	}
	r, err := s.Open(ctx, from)
	if err != nil {
		return Body{}, err
	}
	defer r.Close()
	return s.put(ctx, bucket, name, r, 0)
}

// Named finds the bodies of a tenant whose names begin with prefix; those that it
// gives have a bucket and a name only, and some may be deleted already. It looks at
// the name of every body of the tenant: it is for rare work.
func (s *Bodies) Named(ctx context.Context, tenant, prefix string) ([]Body, error) {
	bucket := s.b.names.Bodies(tenant)
	stream, err := s.b.Stream(ctx, objectStream(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(objectInfos(bucket)+">"))
	}
	if err != nil {
		return nil, fmt.Errorf("names of the bodies in %s: %w", bucket, err)
	}
	var out []Body
	for subject := range info.State.Subjects {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, objectInfos(bucket)))
		if err == nil && strings.HasPrefix(string(name), prefix) {
			out = append(out, Body{Bucket: bucket, Name: string(name)})
		}
	}
	return out, nil
}
