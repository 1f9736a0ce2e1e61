package main

import (
	"encoding/hex"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
)

// pythonWith returns an interpreter that has the modules, preferably the one in PATH. It skips the
// test without one.
func pythonWith(t *testing.T, modules string) string {
	t.Helper()
	var why []string
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if _, err := exec.LookPath(python); err != nil {
			why = append(why, err.Error())
			continue
		}
		out, err := in(t, t.TempDir(), nil, python, "-c", "import "+modules)
		if err == nil {
			return python
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		why = append(why, python+": "+lines[len(lines)-1])
	}
	t.Skipf("needs Python with %s: %s", modules, strings.Join(why, "; "))
	return ""
}

// pythonExample returns a copy of examples/python with generated modules. It uses protoc from
// grpcio-tools or PATH, and skips the test without either.
func pythonExample(t *testing.T, python string) string {
	t.Helper()
	dir := copyExample(t, "python", "*.py")
	arguments := []string{"--descriptor_set_in=descriptor.binpb", "--python_out=.", "genbus/v1/job.proto", "genbus/v1/video.proto", "genbus/v1/video_rpc.proto"}
	tools, err := in(t, dir, nil, append([]string{python, "-m", "grpc_tools.protoc"}, arguments...)...)
	if err == nil {
		return dir
	}
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Skipf("needs grpcio-tools or protoc: %s; %v", strings.TrimSpace(tools), err)
	}
	if out, err := in(t, dir, nil, append([]string{"protoc"}, arguments...)...); err != nil {
		t.Fatalf("protoc: %v: %s", err, out)
	}
	return dir
}

// TestPythonExample proves that examples/python works, if its packages are installed.
func TestPythonExample(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "nats, google.protobuf")
	dir := pythonExample(t, python)
	example{dir: dir, publish: []string{python, "publish.py"}, finished: []string{python, "finished.py"}}.check(t)
}

func TestPythonCompiles(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "py_compile")
	dir := copyExample(t, "python", "*.py")
	if out, err := in(t, dir, nil, python, "-m", "py_compile", "connection.py", "messages.py", "publish.py", "finished.py"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// pythonReads prints the video that messages.py reads from an event in each encoding, and the
// request that it writes.
const pythonReads = `
import sys, messages
json, data, model = bytes.fromhex(sys.argv[1]), bytes.fromhex(sys.argv[2]), sys.argv[3]
print(messages.video_task({"ce-datacontenttype": "application/json"}, json))
print(messages.video_task({"ce-datacontenttype": "application/protobuf"}, data))
print(messages.video_request("order-7", model, "a cat").hex())
`

// TestPythonMessages proves that Python and Go read each other's messages. It needs no NATS
// package.
func TestPythonMessages(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "google.protobuf")
	dir := pythonExample(t, python)
	event := &genbusv1.VideoTaskEvent{Id: "video_1.3.n", Version: 3, Task: &genbusv1.VideoTask{
		Id: "video_1", Model: "sandbox-video", Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED,
		Videos: []*genbusv1.Video{{Url: "https://example.com/1.mp4"}, {Format: "mp4"}},
	}}
	data, err := proto.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	text, err := body.EventJSON(event)
	if err != nil {
		t.Fatal(err)
	}
	out, err := in(t, dir, nil, python, "-c", pythonReads, hex.EncodeToString(text), hex.EncodeToString(data), "sandbox-video")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const found = "{'id': 'video_1', 'model': 'sandbox-video', 'urls': ['https://example.com/1.mp4']}\n"
	written, same := strings.CutPrefix(out, found+found)
	if !same {
		t.Fatalf("it reads %s", out)
	}
	var got genbusv1.VideoRequest
	raw, err := hex.DecodeString(strings.TrimSpace(written))
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := &genbusv1.VideoRequest{
		RequestId: "order-7", Labels: map[string]string{"from": "examples/python"},
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: "a cat"}},
	}
	if diff := cmp.Diff(want, &got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPythonEnds proves that the Python programs exit with a clear message if the durable or NATS
// is not usable. A stub replaces nats-py.
func TestPythonEnds(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "google.protobuf")
	dir := pythonExample(t, python)
	standIn, err := filepath.Abs("testdata/python-nats")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PYTHONPATH=" + standIn, "PYTHONDONTWRITEBYTECODE=1", "NATS_CREDS=", "NATS_USER="}
	const unreachable = "NATS: OSError('refused')\ncannot connect to NATS at nats://never within ten seconds\n"
	for name, test := range map[string]struct {
		command []string
		want    string
	}{
		"a durable of another tenant": {
			[]string{"finished.py", "--tenant", "other"},
			"drained\nthe durable python-finished reads genbus.done.video.default.completed.*: give another --durable for genbus.done.video.other.completed.*\n",
		},
		"a deleted consumer": {
			[]string{"finished.py"},
			"waiting for finished videos of default; Ctrl-C ends it\nvideo_1  sandbox-video  GET /v1/videos/video_1/content\nacknowledged\nacknowledged\ndrained\nNATS: Error('consumer not found')\n",
		},
		"no server to read from":  {[]string{"finished.py", "--nats", "nats://never"}, unreachable},
		"no server to publish to": {[]string{"publish.py", "--nats", "nats://never"}, unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := in(t, dir, env, append([]string{python}, test.command...)...)
			if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() != 1 {
				t.Errorf("it ends with %v", err)
			}
			if diff := cmp.Diff(test.want, out); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
