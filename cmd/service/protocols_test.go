package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// wire is a video protocol as its clients use it.
type wire struct {
	name   string
	model  string // a sandbox model; append ":fail=..." to make the task fail
	create string // path
	body   func(model string) string
	// id returns the task ID in the answer to a create.
	id func(answer map[string]any) any
	// read returns the status word that the protocol shows for a task.
	read func(w *world, t *testing.T, id string) string
	// done and failed are the status words of ended tasks.
	done, failed string
}

const jimengQuery = "/jimeng/?Version=2022-08-31&Action="

var wires = []wire{
	{
		name: "primary", model: "sandbox-video", create: "/v1/video/generations",
		body: func(model string) string { return fmt.Sprintf(`{"model":%q,"prompt":"a cat"}`, model) },
		id:   func(a map[string]any) any { return a["task_id"] },
		read: func(w *world, t *testing.T, id string) string {
			_, a := w.get(t, "/v1/video/generations/"+id)
			return word(a["status"])
		},
		done: "completed", failed: "failed",
	},
	{
		name: "videos", model: "sandbox-videos", create: "/v1/videos",
		body: func(model string) string { return fmt.Sprintf(`{"model":%q,"prompt":"a cat","seconds":"4"}`, model) },
		id:   func(a map[string]any) any { return a["id"] },
		read: func(w *world, t *testing.T, id string) string {
			_, a := w.get(t, "/v1/videos/"+id)
			return word(a["status"])
		},
		done: "completed", failed: "failed",
	},
	{
		name: "kling", model: "sandbox-kling", create: "/kling/v1/videos/text2video",
		body: func(model string) string {
			return fmt.Sprintf(`{"model_name":%q,"prompt":"a cat","duration":"5"}`, model)
		},
		id: func(a map[string]any) any { return inner(a, "data")["task_id"] },
		read: func(w *world, t *testing.T, id string) string {
			_, a := w.get(t, "/kling/v1/videos/text2video/"+id)
			return word(inner(a, "data")["task_status"])
		},
		done: "succeed", failed: "failed",
	},
	{
		name: "jimeng", model: "sandbox-jimeng", create: jimengQuery + "CVSync2AsyncSubmitTask",
		body: func(model string) string { return fmt.Sprintf(`{"req_key":%q,"prompt":"a cat"}`, model) },
		id:   func(a map[string]any) any { return inner(a, "data")["task_id"] },
		read: func(w *world, t *testing.T, id string) string {
			status, a := w.post(t, jimengQuery+"CVSync2AsyncGetResult", fmt.Sprintf(`{"req_key":"sandbox-jimeng","task_id":%q}`, id))
			if status == http.StatusBadRequest {
				return "HTTP 400" // how Jimeng reports a failed task
			}
			return word(inner(a, "data")["status"])
		},
		done: "done", failed: "HTTP 400",
	},
}

func inner(a map[string]any, name string) map[string]any {
	v, _ := a[name].(map[string]any)
	return v
}

func word(v any) string {
	s, _ := v.(string)
	return s
}

// TestEveryProtocolByEveryIngress proves that tasks of each protocol, created through each ingress,
// can complete and fail, appear in the feed, and are readable in every protocol, including their
// content.
func TestEveryProtocolByEveryIngress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, p := range wires {
		t.Run(p.name, func(t *testing.T) {
			for _, ending := range []string{"", ":fail=text risk"} {
				model := p.model + ending
				ids := w.byEveryIngress(t, p, model)
				for way, id := range ids {
					status := genbusv1.JobStatus_JOB_STATUS_COMPLETED
					if ending != "" {
						status = genbusv1.JobStatus_JOB_STATUS_FAILED
					}
					if got := w.ended(t, id); got.GetStatus() != status || got.GetProtocol() != p.name {
						t.Errorf("%s: ended %v by protocol %s: %v", way, got.GetStatus(), got.GetProtocol(), got.GetError())
					}
					w.checkShapes(t, way, id, ending == "")
					if ending == "" {
						w.checkContent(t, id)
					}
				}
			}
		})
	}
}

// byEveryIngress creates a task through each ingress and returns their IDs.
func (w *world) byEveryIngress(t *testing.T, p wire, model string) map[string]string {
	t.Helper()
	ids := map[string]string{}
	status, answer := w.post(t, p.create, p.body(model))
	if status != http.StatusOK {
		t.Fatalf("create: %d %v", status, answer)
	}
	ids["http"] = word(p.id(answer))
	video := genbusv1grpc.NewVideoServiceClient(w.grpc)
	raw := &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(p.body(model))}, Protocol: p.name}
	for way, request := range map[string]*genbusv1.VideoRequest{"grpc raw": raw, "grpc typed": videoOf(model)} {
		created, err := video.CreateVideoTask(t.Context(), &genbusv1.CreateVideoTaskRequest{Request: request})
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		ids[way] = created.GetTask().GetId()
	}
	ids["nats call"] = w.call(t, subject.Video, p.body(model))
	ids["nats inbox"] = w.inbox(t, p, model)
	return ids
}

// inbox publishes a request and finds its task with a call of the same ID and body.
func (w *world) inbox(t *testing.T, p wire, model string) string {
	t.Helper()
	request := &genbusv1.VideoRequest{
		RequestId: "inbox-" + p.name + model, Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(p.body(model))},
	}
	w.fill(t, subject.Video, proto.CloneOf(request))
	created, err := genbusv1grpc.NewVideoServiceClient(w.grpc).CreateVideoTask(t.Context(), &genbusv1.CreateVideoTaskRequest{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	return created.GetTask().GetId()
}

// ended watches a task to its end. It checks that versions have no gap and that the feed contains
// the task once.
func (w *world) ended(t *testing.T, id string) *genbusv1.VideoTask {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	stream, err := genbusv1grpc.NewVideoServiceClient(w.grpc).WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	var last *genbusv1.VideoTask
	for version := uint64(1); ; version++ {
		r, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("watch %s: %v", id, err)
		}
		if last = r.GetEvent().GetTask(); last.GetVersion() != version {
			t.Errorf("%s: version %d at place %d", id, last.GetVersion(), version)
		}
	}
	feed, err := w.js.OrderedConsumer(ctx, w.Names().Tasks(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{w.Names().Done(subject.Video, "default", task.StatusWord(last.GetStatus()), id)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := feed.Next(jetstream.FetchContext(ctx)); err != nil {
		t.Errorf("%s is not in the feed: %v", id, err)
	}
	return last
}

// checkShapes reads a task on the path of every protocol.
func (w *world) checkShapes(t *testing.T, way, id string, completed bool) {
	t.Helper()
	for _, p := range wires {
		want := p.failed
		if completed {
			want = p.done
		}
		if got := p.read(w, t, id); got != want {
			t.Errorf("%s: %s reads %q on the path of %s, want %q", way, id, got, p.name, want)
		}
	}
}

// checkContent downloads a task's content completely, as a range, as HEAD, and over gRPC.
func (w *world) checkContent(t *testing.T, id string) {
	t.Helper()
	path := "/v1/videos/" + id + "/content"
	whole, data := w.fetch(t, http.MethodGet, path, "")
	if whole.StatusCode != http.StatusOK || whole.Header.Get("Content-Type") != "video/mp4" || !bytes.Contains(data[:min(len(data), 16)], []byte("ftyp")) {
		t.Fatalf("content: %d %v, %d bytes", whole.StatusCode, whole.Header, len(data))
	}
	part, some := w.fetch(t, http.MethodGet, path, "bytes=4-11")
	if want := fmt.Sprintf("bytes 4-11/%d", len(data)); part.StatusCode != http.StatusPartialContent || part.Header.Get("Content-Range") != want || !bytes.Equal(some, data[4:12]) {
		t.Errorf("range: %d %v %q", part.StatusCode, part.Header, some)
	}
	head, none := w.fetch(t, http.MethodHead, path, "")
	if head.StatusCode != http.StatusOK || head.ContentLength != int64(len(data)) || len(none) != 0 {
		t.Errorf("head: %d %v", head.StatusCode, head.Header)
	}
	stream, err := genbusv1grpc.NewVideoServiceClient(w.grpc).DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id, Offset: 4, Length: 8})
	if err != nil {
		t.Fatal(err)
	}
	piece, err := stream.Recv()
	if err != nil || !bytes.Equal(piece.GetData(), data[4:12]) || piece.GetSize() != int64(len(data)) || piece.GetOffset() != 4 {
		t.Errorf("gRPC: %v, %v", piece, err)
	}
}

func (w *world) fetch(t *testing.T, method, path, byteRange string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if byteRange != "" {
		req.Header.Set("Range", byteRange)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, data
}

func (w *world) get(t *testing.T, path string) (int, map[string]any) {
	t.Helper()
	resp, data := w.fetch(t, http.MethodGet, path, "")
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("GET %s: %s: %v", path, data, err)
	}
	return resp.StatusCode, out
}

// TestWrongProtocolNamesTheRightPath proves that a model cannot be reached on another protocol's
// path, and that the error names the right one.
func TestWrongProtocolNamesTheRightPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	right := map[string]string{
		"primary": "/v1/video/generations", "videos": "/v1/videos",
		"kling": "/kling/v1/videos/text2video", "jimeng": "/jimeng/?Action=CVSync2AsyncSubmitTask",
	}
	for _, path := range wires {
		for _, model := range wires {
			if path.name == model.name {
				continue
			}
			status, answer := w.post(t, path.create, path.body(model.model))
			text, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			if status < 400 || !strings.Contains(string(text), right[model.name]) {
				t.Errorf("a model of %s on the path of %s: %d %s", model.name, path.name, status, text)
			}
		}
	}
}
