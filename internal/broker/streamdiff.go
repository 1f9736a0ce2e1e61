package broker

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// streamDiff describes each field that differs, as "name old to new".
func streamDiff(have, want jetstream.StreamConfig) []string {
	var d diff
	d.add("subjects", have.Subjects, want.Subjects, slices.Equal(have.Subjects, want.Subjects))
	d.add("retention", have.Retention, want.Retention, have.Retention == want.Retention)
	d.add("storage", have.Storage, want.Storage, have.Storage == want.Storage)
	d.add("replicas", have.Replicas, want.Replicas, have.Replicas == want.Replicas)
	d.add("max_consumers", have.MaxConsumers, want.MaxConsumers, have.MaxConsumers == want.MaxConsumers)
	d.add("max_msgs", have.MaxMsgs, want.MaxMsgs, unlimited(have.MaxMsgs) == unlimited(want.MaxMsgs))
	d.add("max_msgs_per_subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject, unlimited(have.MaxMsgsPerSubject) == unlimited(want.MaxMsgsPerSubject))
	d.add("max_bytes", have.MaxBytes, want.MaxBytes, unlimited(have.MaxBytes) == unlimited(want.MaxBytes))
	d.add("max_age", have.MaxAge, want.MaxAge, have.MaxAge == want.MaxAge)
	d.add("discard", have.Discard, want.Discard, have.Discard == want.Discard)
	d.add("discard_new_per_subject", have.DiscardNewPerSubject, want.DiscardNewPerSubject, have.DiscardNewPerSubject == want.DiscardNewPerSubject)
	d.add("duplicate_window", have.Duplicates, want.Duplicates, have.Duplicates == want.Duplicates)
	d.add("allow_direct", have.AllowDirect, want.AllowDirect, have.AllowDirect == want.AllowDirect)
	d.add("allow_atomic", have.AllowAtomicPublish, want.AllowAtomicPublish, have.AllowAtomicPublish == want.AllowAtomicPublish)
	d.add("republish", have.RePublish, want.RePublish, equalRePublish(have.RePublish, want.RePublish))
	d.add("allow_rollup", have.AllowRollup, false, !have.AllowRollup)
	d.add("revision", have.Metadata[subject.MetadataRevision], configRevision,
		have.Metadata[subject.MetadataRevision] == strconv.Itoa(configRevision))
	return d
}

// objectStoreDiff is like streamDiff but compares only the configurable fields of a tenant's object
// store.
func objectStoreDiff(have, want jetstream.StreamConfig) []string {
	var d diff
	d.add("replicas", have.Replicas, want.Replicas, have.Replicas == want.Replicas)
	d.add("max_age", have.MaxAge, want.MaxAge, have.MaxAge == want.MaxAge)
	d.add("max_bytes", have.MaxBytes, want.MaxBytes, unlimited(have.MaxBytes) == unlimited(want.MaxBytes))
	return d
}

type diff []string

func (d *diff) add(field string, have, want any, equal bool) {
	if !equal {
		*d = append(*d, fmt.Sprintf("%s %v to %v", field, have, want))
	}
}

// unlimited maps 0 to -1, because both mean "no limit".
func unlimited(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

func equalRePublish(a, b *jetstream.RePublish) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
