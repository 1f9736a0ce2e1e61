package task

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestFieldsOfANewerVersionAreKept checks that an older replica keeps the fields of a newer one
// during a rolling upgrade.
func TestFieldsOfANewerVersionAreKept(t *testing.T) {
	t.Parallel()
	job := FromWork(work("video")).Job
	newer := protowire.AppendString(protowire.AppendTag(nil, 20_000, protowire.BytesType), "of a later version")
	job.ProtoReflect().SetUnknown(newer)
	job.GetExecution().ProtoReflect().SetUnknown(newer)
	e, err := Failed(job, start.Add(time.Second), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Job.ProtoReflect().GetUnknown(); !bytes.Equal(got, newer) {
		t.Errorf("of the job it kept %q", got)
	}
	if got := e.Job.GetExecution().ProtoReflect().GetUnknown(); !bytes.Equal(got, newer) {
		t.Errorf("of its execution it kept %q", got)
	}
}
