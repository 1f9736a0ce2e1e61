package docs_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

// maxWords limits a page for operators to about ten minutes of reading.
const maxWords = 2200

// operationsPages returns the pages below docs/operations.
func operationsPages(t *testing.T) []string {
	t.Helper()
	pages, err := fs.Glob(os.DirFS(root), "docs/operations/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("docs/operations has no pages", err)
	}
	return pages
}

// TestOperationsPagesAreShort proves that operator pages stay within maxWords and are linked from
// docs/operations.md.
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
