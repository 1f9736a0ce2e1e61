package kling

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		body string
		want []string
	}{
		"text":             {`{"model_name":"kling-v2-6","prompt":"a cat"}`, nil},
		"everything":       {`{"model_name":"m","prompt":"p","negative_prompt":"n","cfg_scale":0.5,"mode":"std","sound":"on","camera_control":{"type":"simple"},"aspect_ratio":"16:9","duration":"15","watermark_info":{"enabled":true},"external_task_id":"a-1","unknown":[]}`, nil},
		"nulls":            {`{"model_name":"m","prompt":"p","cfg_scale":null,"image":null,"callback_url":null,"external_task_id":null}`, nil},
		"empty texts":      {`{"model_name":"m","prompt":"p","image":"","callback_url":"","external_task_id":""}`, nil},
		"image, no prompt": {`{"model_name":"m","image":"https://example.com/a.png"}`, nil},
		"tail, no prompt":  {`{"model_name":"m","image_tail":"aGk=","prompt":""}`, nil},
		"shots, no prompt": {`{"model_name":"m","multi_shot":true,"multi_prompt":[{"index":1,"prompt":"p","duration":"5"}]}`, nil},
		"no model":         {`{"model":"m","prompt":"p"}`, []string{"model_name is required"}},
		"no prompt":        {`{"model_name":"m"}`, []string{"prompt is required"}},
		"empty prompt":     {`{"model_name":"m","prompt":""}`, []string{"prompt is empty; it is required"}},
		"no JSON":          {`{"a`, []string{" is not valid JSON: it ends too early"}},
		"data: prefix": {`{"model_name":"m","image":"DATA:image/png;base64,aGk=","image_tail":"data:"}`, []string{
			`image has a "data:" prefix; the vendor takes a URL or plain Base64`,
			`image_tail has a "data:" prefix; the vendor takes a URL or plain Base64`,
		}},
		"duration as a number": {`{"model_name":"m","prompt":"p","duration":5}`, []string{
			`duration is a number; it must be a string with a whole number of seconds from 3 to 15, such as "5"`}},
		"other types": {`{"model_name":1,"prompt":[],"image":1,"cfg_scale":"0.5","mode":1,"aspect_ratio":{},"external_task_id":7}`, []string{
			"model_name is a number; it must be a string",
			"prompt is an array; it must be a string",
			"image is a number; it must be a string",
			"cfg_scale is a string; it must be a number",
			"mode is a number; it must be a string",
			"aspect_ratio is an object; it must be a string",
			"external_task_id is a number; it must be a string",
		}},
		"callback": {`{"model_name":"m","prompt":"p","callback_url":"https://example.com"}`, []string{
			"callback_url is not supported: genbus publishes every change as an event instead; leave it out"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, check(c.body)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func check(raw string) []string {
	var list []string
	for _, v := range upstreamtest.Violations(bodies{}, []byte(raw)) {
		list = append(list, v.Field+" "+v.Description)
	}
	return list
}

func TestCheckValues(t *testing.T) {
	t.Parallel()
	cases := map[string]map[string]bool{
		"duration": {
			`"3"`: true, `"5"`: true, `"10"`: true, `"15"`: true,
			`"2"`: false, `"16"`: false, `"05"`: false, `"+5"`: false, `" 5"`: false, `"5.0"`: false, `""`: false, `"five"`: false, `true`: false,
		},
		"cfg_scale": {`0`: true, `1`: true, `0.5`: true, `1e-1`: true, `-0.1`: false, `1.01`: false, `1e999`: false},
		"external_task_id": {
			`"a"`: true, `"order/1#~!"`: true, `"` + strings.Repeat("x", 128) + `"`: true, `"\u0062"`: true,
			`"` + strings.Repeat("x", 129) + `"`: false, `"a b"`: false, `"é"`: false, `"a\n"`: false, `"\u007f"`: false,
		},
		"image": {`"h"`: true, `"data"`: true, `"https://example.com/data:"`: true, `"data:x"`: false},
	}
	for member, values := range cases {
		for value, good := range values {
			got := check(`{"model_name":"m","prompt":"p","` + member + `":` + value + `}`)
			if (got == nil) != good {
				t.Errorf("%s %s: violations %q, want none: %v", member, value, got, good)
			}
		}
	}
}

func TestSetModel(t *testing.T) {
	t.Parallel()
	got := withModel(`{ "prompt":"p", "model":"x", "model_name" : "a" }`, `b"c`)
	if want := `{ "prompt":"p", "model":"x", "model_name" : "b\"c" }`; got.Err() != nil || string(got.Bytes()) != want {
		t.Errorf("got %s, %v, want %s", got.Bytes(), got.Err(), want)
	}
	got = withModel(`{}`, "m")
	if want := `{"model_name":"m"}`; got.Err() != nil || string(got.Bytes()) != want {
		t.Errorf("got %s, %v, want %s", got.Bytes(), got.Err(), want)
	}
	for raw, model := range map[string]string{`[]`: "m", `{}`: "\xff"} {
		if got := withModel(raw, model); got.Err() == nil {
			t.Errorf("%s with %q is %s", raw, model, got.Bytes())
		}
	}
	if got := (bodies{}).ModelMember(); got != "model_name" {
		t.Errorf("ModelMember = %s", got)
	}
}

// withModel replaces the model in a body, as a holder does.
func withModel(raw, model string) body.Document {
	return body.Parse([]byte(raw)).WithText(bodies{}.ModelMember(), model)
}

func TestAsked(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]upstream.Asked{
		`{"aspect_ratio":"9:16","duration":"5"}`: {Size: "9:16", Seconds: "5"},
		`{"aspect_ratio":1,"duration":10}`:       {Seconds: "10"},
		`{}`:                                     {},
		`[`:                                      {},
	} {
		if got := (bodies{}).Asked(body.Parse([]byte(raw))); got != want {
			t.Errorf("Asked(%s) = %+v, want %+v", raw, got, want)
		}
	}
}

// FuzzBodies checks that a body that passes Check still passes with another model and in a
// gateway's form.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"model_name":"m","prompt":"p","duration":"5","metadata":{"a":1}}`))
	f.Add([]byte(`{"model_name":"m","image":"x","metadata":"{\"a\":\"\ud800\"}"}`))
	f.Add([]byte(`{"model_name":"m","image":"x","external_task_id":"\u0061"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := bodies{}
		d := body.Parse(raw)
		_ = b.Asked(d)
		if upstreamtest.Violations(bodies{}, raw) != nil {
			return
		}
		out, err := forGateway(d)
		if err != nil {
			if strings.Contains(err.Error(), "deep") {
				return // a level was added
			}
			t.Fatalf("forGateway(%q): %v", raw, err)
		}
		if got := check(string(out.Bytes())); got != nil || kindOf(out) != kindOf(d) || b.Asked(out) != b.Asked(d) {
			t.Errorf("forGateway(%q) = %q: %q", raw, out.Bytes(), got)
		}
		if again, err := forGateway(out); err != nil || string(again.Bytes()) != string(out.Bytes()) {
			t.Errorf("forGateway of its own result: %q, %v", again.Bytes(), err)
		}
		mapped := withModel(string(raw), "other")
		if mapped.Err() != nil || check(string(mapped.Bytes())) != nil || kindOf(mapped) != kindOf(d) {
			t.Errorf("the model of %q mapped: %q, %v", raw, mapped.Bytes(), mapped.Err())
		}
	})
}
