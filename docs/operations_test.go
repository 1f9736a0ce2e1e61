package docs_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

// maxWords is how long a page for operators may be: about ten minutes of reading.
const maxWords = 2200

// operationsPages are the pages that docs/operations.md leads to.
func operationsPages(t *testing.T) []string {
	t.Helper()
	pages, err := fs.Glob(os.DirFS(root), "docs/operations/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("docs/operations has no pages", err)
	}
	return pages
}

// TestOperationsPagesAreShort: a person on call reads one of them in ten minutes, and finds
// each from the first.
func TestOperationsPagesAreShort(t *testing.T) {
	t.Parallel()
	const first = "docs/operations.md"
	start := read(t, first)
	for _, page := range append(operationsPages(t), first) {
		if n := len(strings.Fields(read(t, page))); n > maxWords {
			t.Errorf("%s has %d words; %d at most: split it by task", page, n, maxWords)
		}
		if page != first && !strings.Contains(start, "]("+strings.TrimPrefix(page, "docs/")+")") {
			t.Errorf("%s does not link to %s", first, page)
		}
	}
}
