package config

import (
	"reflect"
	"strings"
	"testing"
)

// dependent are the defaults that depend on another field; TestRouteDefaults and TestClusterFromEnvironment check
// what the comments say.
var dependent = map[string]string{
	"nats.replicas":                "1 embedded, 3 on a cluster",
	"http.segments":                "the protocol's name, such as kling and jimeng",
	"upstreams.<name>.vendor_path": "the protocol's segment with bearer (a gateway), none with signed (the vendor itself)",
	"routes[].group":               "the protocol; chat for chats",

	"tenants.<name>.requests_per_second": "that of limits.tenant",
	"tenants.<name>.burst":               "that of limits.tenant",
	"tenants.<name>.max_jobs":            "that of limits.tenant",
	"tenants.<name>.max_dead_letters":    "that of limits.tenant",
	"tenants.<name>.max_body_bytes":      "that of limits.tenant",
	"routes[].protocol":                  "primary for video",
	"routes[].max_in_flight":             "100 for video, 64 for chat",
	"routes[].ready_jobs":                "half of max_in_flight, 16 or more",
}

// defaults returns the default of every key as an operator would write it.
func defaults(v reflect.Value, path string, into map[string]string) map[string]string {
	for i := range v.NumField() {
		key, f := v.Type().Field(i).Tag.Get("yaml"), v.Field(i)
		if key == "" || key == "-" {
			continue
		}
		key = join(path, key)
		switch element, step := structOf(f.Type()); {
		case step != "":
			defaults(newElement(element), key+step, into)
		case element != nil:
			defaults(f, key, into)
		case f.Kind() == reflect.Map || f.Kind() == reflect.Slice:
			into[key] = ""
		default:
			into[key] = formatScalar(f)
		}
	}
	return into
}

func TestCommentsSayTheDefaults(t *testing.T) {
	t.Parallel()
	rows, err := Describe()
	if err != nil {
		t.Fatal(err)
	}
	want := defaults(reflect.ValueOf(Default()).Elem(), "", map[string]string{})
	for _, row := range rows {
		if row.Key == "" {
			continue
		}
		value, known := want[row.Key]
		delete(want, row.Key)
		switch text, special := dependent[row.Key]; {
		case !known:
			t.Errorf("%s is described and does not exist", row.Key)
		case special:
			value = text
		case row.Default == "required" && value == "":
			continue
		case value == "":
			value = "none"
		}
		if row.Default != value {
			t.Errorf("%s: the comment says %q, Default says %q", row.Key, row.Default, value)
		}
		if row.Meaning == "" || !strings.HasSuffix(row.Meaning, ".") {
			t.Errorf("%s: the comment is no sentence: %q", row.Key, row.Meaning)
		}
	}
	for key := range want {
		t.Errorf("%s is not described", key)
	}
}

func TestEveryVariableIsDescribed(t *testing.T) {
	t.Parallel()
	rows, err := Describe()
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]int{}
	for _, row := range rows {
		if row.Env != "" {
			described[row.Env]++
		}
	}
	for _, name := range variables() {
		if described[name] != 1 {
			t.Errorf("%s is described %d times", name, described[name])
		}
	}
	if len(described) != len(variables()) {
		t.Errorf("%d variables are described, there are %d", len(described), len(variables()))
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	rows, _ := Describe()
	if len(lines) != len(rows)+2 {
		t.Errorf("%d lines for %d rows", len(lines), len(rows))
	}
	for _, line := range lines {
		if strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 5 {
			t.Errorf("not four cells: %s", line)
		}
	}
	const want = "| `http.addr` | `GENBUS_HTTP_ADDR` | 127.0.0.1:8080 | Address that HTTP listens on, host:port; port 0 takes a free one. |"
	if !strings.Contains(table, want) {
		t.Errorf("no line\n%s\nin\n%s", want, table)
	}
}
