package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/genbus/genbus/internal/process"
)

func TestVersionIsPrinted(t *testing.T) {
	t.Parallel()
	var line, object bytes.Buffer
	if err := (versionCommand{}).Run(&line); err != nil {
		t.Fatal(err)
	}
	if want := process.ReadBuild().String() + "\n"; line.String() != want {
		t.Errorf("got %q, want %q", line.String(), want)
	}
	if err := (versionCommand{JSON: true}).Run(&object); err != nil {
		t.Fatal(err)
	}
	var got process.Build
	if err := json.Unmarshal(object.Bytes(), &got); err != nil || got != process.ReadBuild() {
		t.Errorf("%v: %s", err, object.String())
	}
}
