package brief

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOf(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("aZ0+/=", 300)
	for _, same := range []string{"", "a b", strings.Repeat("a", longWord-1), strings.Repeat("a ", 4000), strings.Repeat("-", 5000)} {
		if got := Of(same); got != same {
			t.Errorf("%.40q became %.40q", same, got)
		}
	}
	text := `{"content":"` + long + ` and more"}`
	got := Of(text)
	if !strings.HasPrefix(got, `{"content":"~1800:`) || !strings.HasSuffix(got, `~ and more"}`) || len(got) > 100 {
		t.Errorf("got %q", got)
	}
	for _, other := range []string{strings.Replace(text, "a", "b", 1), strings.Replace(text, "aZ", "Za", 1), strings.Replace(text, "aZ0", "", 1)} {
		if Of(other) == got {
			t.Error("another text has the same short form")
		}
	}
	if begin := Of("1 " + long + " "); !strings.HasPrefix(Of("1 "+long+" 2 "+long), begin) {
		t.Errorf("%q begins another way", begin)
	}
}

func TestLongest(t *testing.T) {
	t.Parallel()
	long, longer := strings.Repeat("a", 2000), strings.Repeat("b", 3000)
	if got := Longest(long + "," + longer + "," + long); got != Of(longer) {
		t.Errorf("got %q", got)
	}
	if got := Longest(strings.Repeat("a ", 3000)); got != "" {
		t.Errorf("got %q", got)
	}
}
