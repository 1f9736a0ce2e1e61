package console

import "testing"

// TestTheTextOfAReply checks that textOf joins the texts of all choices, in either form of content.
func TestTheTextOfAReply(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		`{"choices":[{"message":{"content":"one"}},{"message":{"content":[{"type":"text","text":"two"}]}}]}`: "one\n\ntwo",
		`{"choices":[{"message":{"content":null}}]}`:                                                         "",
		`not JSON`: "",
		``:         "",
	} {
		if got := textOf([]byte(reply)); got != want {
			t.Errorf("%s is %q", reply, got)
		}
	}
}
