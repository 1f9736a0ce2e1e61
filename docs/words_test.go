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

// replaced maps identifiers that genbus once invented to the words that replaced them. LeftLine
// is not among them: it is a field of the contract, and those are never renamed.
var replaced = map[string]string{
	"usher": "dispatcher", "Usher": "Dispatcher", "waitingRoom": "backlog", "hall": "backlog", "turns": "roundRobin", "waiter": "tenantQueue",
	"Widen": "Resize", "Knock": "CheckRateLimit", "placeFor": "chooseSubject", "unrecorded": "resolveUnlogged", "Stray": "StaleItem",
	"Unrecorded": "PendingFirstEvent", "orphanWatch": "probe", "inVain": "failedProbes", "sightings": "seenSet", "tainted": "suspect",
	"Survived": "ResetPoisonCount", "remembered": "workItemFromLog", "strandedAfter": "stuckAfter", "heed": "applyBackoff", "edition": "generation",
	"Again": "TryRetryBudget, Retryable or SentBefore", "strangers": "unauthenticated", "Patiently": "RetryUntilLeader", "beside": "runAsync",
	"patiently": "retryUntil", "eraseTwin": "eraseFeedCopy", "standing": "itemKey", "nobody": "noAccount", "tasklog": "joblog",
	"hasLeftLine": "wasReturned", "leaveLine": "returnToBacklog", "stillInLine": "stillQueued", "lookAgain": "settleErased",
	"RoomForJob": "ReserveJob", "RoomForSubmission": "ReserveSubmission", "RoomForProgress": "ReserveProgress", "RoomForReply": "ReserveReply", "RoomForEnd": "ReserveEnd",
	"HasRoom": "CheckCapacity", "errNoRoom": "errNoCapacity", "readRoom": "readFigures", "RoomAgain": "CapacityRetry", "KeyRest": "KeyCooldown",
	"TellAll": "NotifyAll", "tellDifference": "logDifference", "isNobody": "noResponder", "restFor": "cooldown", "restUntil": "coolingUntil",
}

// replacedParts maps parts of identifiers and of file names to the words that replaced them.
var replacedParts = map[string]string{
	"usher": "dispatcher", "knock": "checkRateLimit", "twin": "feedCopy or duplicate", "twins": "feedCopies or duplicates", "stray": "staleItem or foreignAck",
	"strays": "staleItems", "sightings": "seenSet", "tainted": "suspect", "heed": "applyBackoff", "patiently": "retryUntil",
}

// part matches a word of a name in camel case or with underscores.
var part = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// replacement returns the word that replaced a name or a part of it.
func replacement(name string) (string, bool) {
	if word, ok := replaced[name]; ok {
		return word, true
	}
	for _, p := range part.FindAllString(name, -1) {
		if word, ok := replacedParts[strings.ToLower(p)]; ok {
			return word, true
		}
	}
	return "", false
}

// idioms are words that comments should avoid: plain technical English has others.
var idioms = regexp.MustCompile(`(?i)\b(?:whoever|nobody|somebody|stands|anew|beside|heed|in vain|mend)\b`)

// maxIdioms is how many idioms comments may have, in 1,000 lines.
const maxIdioms = 2

// unspoken are words that logs, help texts, errors and pages do not use: genbus once invented
// them, or plain technical English has others.
var unspoken = regexp.MustCompile(`(?i)\b(?:ushers?|twins?|strays?|tasklog|heeds?|whoever|nobody|somebody|in vain|anew)\b`)

// TestIdentifiersUseTheGlossary keeps replaced identifiers and idioms from coming back.
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
		if word, ok := replacement(strings.TrimSuffix(d.Name(), ".go")); ok {
			t.Errorf("%s: the file name has a replaced word; want %s", name, word)
		}
		src, files := []byte(read(t, name)), token.NewFileSet()
		file := files.AddFile(name, -1, len(src))
		var s scanner.Scanner
		s.Init(file, src, nil, scanner.ScanComments)
		for pos, tok, text := s.Scan(); tok != token.EOF; pos, tok, text = s.Scan() {
			if tok == token.IDENT {
				if word, ok := replacement(text); ok {
					t.Errorf("%s: %s; want %s", files.Position(pos), text, word)
				}
			}
			if word := unspoken.FindString(text); tok == token.STRING && word != "" && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "test/") {
				t.Errorf("%s: a text says %q", files.Position(pos), word)
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
	rate := 1000 * float64(count) / float64(lines)
	t.Logf("%d idioms in %d lines of comments, %.1f in 1,000", count, lines, rate)
	if rate > maxIdioms {
		t.Errorf("%.1f idioms in 1,000 lines of comments; want %d at most", rate, maxIdioms)
	}
}

// TestPagesUseTheGlossary. What soaks found, and decisions of their day, stay as they were.
func TestPagesUseTheGlossary(t *testing.T) {
	t.Parallel()
	pages, err := fs.Glob(os.DirFS(root), "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(append(pages, operationsPages(t)...), "README.md") {
		if page == "docs/soak-results.md" {
			continue
		}
		for i, line := range strings.Split(read(t, page), "\n") {
			if word := unspoken.FindString(line); word != "" {
				t.Errorf("%s:%d says %q", page, i+1, word)
			}
		}
	}
}
