package docs_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// replaced maps identifiers that genbus once invented to the words that replaced them.
var replaced = map[string]string{
	"usher": "dispatcher", "Usher": "Dispatcher", "waitingRoom": "backlog", "hall": "backlog", "turns": "roundRobin", "waiter": "tenantQueue",
	"Widen": "Resize", "Knock": "CheckRateLimit", "placeFor": "chooseSubject", "unrecorded": "resolveUnlogged", "Stray": "StaleItem",
	"Unrecorded": "PendingFirstEvent", "orphanWatch": "probe", "inVain": "failedProbes", "sightings": "seenSet", "tainted": "suspect",
	"Survived": "ResetPoisonCount", "remembered": "workItemFromLog", "strandedAfter": "stuckAfter", "heed": "applyBackoff", "edition": "generation",
	"Again": "TryRetryBudget, Retryable or SentBefore", "strangers": "unauthenticated", "Patiently": "RetryUntilLeader", "beside": "runAsync",
	"patiently": "retryUntil", "eraseTwin": "eraseFeedCopy", "standing": "itemKey", "nobody": "noAccount", "tasklog": "joblog",
}

// idioms are words that comments should avoid: plain technical English has others.
var idioms = regexp.MustCompile(`(?i)\b(?:whoever|nobody|somebody|stands|anew|beside|heed|in vain|mend)\b`)

// TestIdentifiersUseTheGlossary keeps replaced identifiers from coming back. It logs, and
// does not limit, how many idioms the comments have.
func TestIdentifiersUseTheGlossary(t *testing.T) {
	t.Parallel()
	lines, count := 0, 0
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "gen" || d.Name() == "node_modules" || name != "." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		src, files := []byte(read(t, name)), token.NewFileSet()
		file := files.AddFile(name, -1, len(src))
		var s scanner.Scanner
		s.Init(file, src, nil, scanner.ScanComments)
		for pos, tok, text := s.Scan(); tok != token.EOF; pos, tok, text = s.Scan() {
			if word, ok := replaced[text]; ok && tok == token.IDENT {
				t.Errorf("%s: %s; want %s", files.Position(pos), text, word)
			}
			if tok == token.COMMENT {
				lines += strings.Count(text, "\n") + 1
				count += len(idioms.FindAllString(text, -1))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d idioms in %d lines of comments, %.1f in 1,000", count, lines, 1000*float64(count)/float64(lines))
}
