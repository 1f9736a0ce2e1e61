package deploy_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = ".."

type instruction struct {
	word  string   // FROM, COPY and so on
	flags []string // --from=build
	args  []string
	line  string // everything after the word
	stage int    // from 0
}

var continued = regexp.MustCompile(`\\\n\s*`)

func dockerfile(t *testing.T) (out []instruction) {
	t.Helper()
	stage := -1
	for line := range strings.Lines(continued.ReplaceAllString(content(t, "Dockerfile"), "")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "FROM" {
			stage++
		}
		i := instruction{word: word, line: rest, stage: stage}
		for _, field := range strings.Fields(rest) {
			if strings.HasPrefix(field, "--") && len(i.args) == 0 {
				i.flags = append(i.flags, field)
			} else {
				i.args = append(i.args, field)
			}
		}
		out = append(out, i)
	}
	return out
}

func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func find(all []instruction, word string, stage int) (out []instruction) {
	for _, i := range all {
		if i.word == word && i.stage == stage {
			out = append(out, i)
		}
	}
	return out
}

// imageUser is the user of the image. It owns only the data.
const imageUser = "65532"

// TestImageIsSmallAndNobodys proves that the image starts from scratch, runs under a numeric user,
// and uses its binary for the health check.
func TestImageIsSmallAndNobodys(t *testing.T) {
	t.Parallel()
	all := dockerfile(t)
	for word, want := range map[string]string{
		"FROM": "scratch", "USER": imageUser + ":" + imageUser, "VOLUME": `["/data"]`, "EXPOSE": "8080 9090", "ENTRYPOINT": `["/genbus"]`, "CMD": `["serve"]`, "WORKDIR": "/",
	} {
		if got := find(all, word, 1); len(got) != 1 || got[0].line != want {
			t.Errorf("%s is %+v, want one, %s", word, got, want)
		}
	}
	if got := find(all, "HEALTHCHECK", 1); len(got) != 1 || !strings.HasSuffix(got[0].line, `CMD ["/genbus", "health"]`) {
		t.Errorf("HEALTHCHECK is %+v", got)
	}
	if env := find(all, "ENV", 1); len(env) > 0 {
		t.Errorf("%+v would override the configuration file", env)
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if !strings.Contains(content(t, "Dockerfile"), "org.opencontainers.image."+label+"=") {
			t.Errorf("the image has no label %s", label)
		}
	}
}

// TestImageIsBuiltByOurGo proves that the builder's tag names the toolchain of go.mod.
func TestImageIsBuiltByOurGo(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(content(t, filepath.Join(root, "go.mod")))
	from := find(dockerfile(t), "FROM", 0)
	if len(version) == 0 || len(from) != 1 || !slices.Contains(from[0].args, "golang:"+version[1]+"-bookworm") {
		t.Errorf("FROM is %+v, and go.mod says %v", from, version)
	}
}

// TestImageCopiesWhatIsThere proves that COPY names existing files of the context or of the build,
// and that the user owns only the data.
func TestImageCopiesWhatIsThere(t *testing.T) {
	t.Parallel()
	all := dockerfile(t)
	made := "/etc/ssl/certs/ca-certificates.crt" // from the builder image
	for _, run := range find(all, "RUN", 0) {
		made += " " + run.line
	}
	copies := 0
	for _, c := range all {
		if c.word != "COPY" {
			continue
		}
		copies++
		for _, from := range c.args[:len(c.args)-1] {
			if slices.Contains(c.flags, "--from=build") {
				if !strings.Contains(made, from) {
					t.Errorf("the build does not create %s", from)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(root, from)); err != nil {
				t.Errorf("COPY %s: %v", c.line, err)
			}
		}
		if data := c.args[len(c.args)-1] == "/data"; data != slices.Contains(c.flags, "--chown="+imageUser+":"+imageUser) {
			t.Errorf("COPY %s: the user must own the data, and nothing else", c.line)
		}
	}
	if copies == 0 {
		t.Error("no COPY found")
	}
}

// TestImageBuildLine proves that a shell can run the line that builds the binary. It prints the
// commands instead of compiling.
func TestImageBuildLine(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed")
	}
	var line string
	for _, run := range find(dockerfile(t), "RUN", 0) {
		if strings.Contains(run.line, "go build") {
			line = run.line
		}
	}
	for _, want := range []string{"CGO_ENABLED=0 ", " -trimpath ", " ./cmd/genbus"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q has no%s", line, want)
		}
	}
	out := filepath.Join(t.TempDir(), "genbus")
	dry := strings.NewReplacer("go build", "go build -n", "/out/genbus", out).Replace(line)
	c := exec.CommandContext(t.Context(), sh, "-c", dry)
	c.Dir, c.Env = root, append(os.Environ(), "TARGETOS=linux", "TARGETARCH=arm64")
	said, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(said), out) {
		t.Errorf("%s: %v: %.2000s", dry, err, said)
	}
}

// TestImageIgnoresWhatGitIgnores proves that the build ignores exactly the files that git ignores.
// A key would stay in a layer, and a missing file would mark the binary as modified.
func TestImageIgnoresWhatGitIgnores(t *testing.T) {
	t.Parallel()
	c := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	c.Dir = root
	listed, err := c.Output()
	if err != nil {
		t.Skipf("git is not installed, or this is not a clone: %v", err)
	}
	kept := strings.Split(strings.TrimSuffix(string(listed), "\x00"), "\x00")
	var want []string
	for _, file := range kept {
		if path.Base(file) == ".gitignore" {
			for _, pattern := range patterns(content(t, filepath.Join(root, file))) {
				want = append(want, inContext(path.Dir(file), pattern))
			}
		}
	}
	have := patterns(content(t, "Dockerfile.dockerignore"))
	for _, pattern := range want {
		if !slices.Contains(have, pattern) {
			t.Errorf("Dockerfile.dockerignore lacks %s, which git ignores", pattern)
		}
	}
	for _, pattern := range have {
		if !slices.Contains(want, pattern) {
			t.Errorf("Dockerfile.dockerignore has %s, which git does not ignore", pattern)
		}
		for _, file := range kept {
			if ignores(pattern, file) {
				t.Errorf("%s in Dockerfile.dockerignore excludes the tracked file %s", pattern, file)
			}
		}
	}
}

// patterns returns the lines that are not comments.
func patterns(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// inContext converts a .gitignore pattern to Docker's syntax. Docker matches from the root of the
// context, git matches a name without a slash in every directory.
func inContext(dir, pattern string) string {
	pattern = strings.TrimSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	return path.Join("/", dir, pattern)
}

// ignores reports whether a pattern matches a file or one of its parent directories.
func ignores(pattern, file string) bool {
	below, anywhere := pattern, false
	if at, rest, ok := strings.Cut(pattern, "**/"); ok {
		dir := strings.Trim(at, "/")
		if dir != "" && !strings.HasPrefix(file, dir+"/") {
			return false
		}
		file, below, anywhere = strings.TrimPrefix(file, dir+"/"), rest, true
	}
	below = strings.TrimPrefix(below, "/")
	names := strings.Split(file, "/")
	for n := range names {
		for from := 0; from <= n && (anywhere || from == 0); from++ {
			if ok, _ := path.Match(below, strings.Join(names[from:n+1], "/")); ok {
				return true
			}
		}
	}
	return false
}

func TestIgnores(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		dir, pattern, file string
		want               bool
	}{
		{".", "/secrets/", "secrets/upstream-key", true},
		{".", "/secrets/", "deploy/secrets/x", false},
		{".", "*.test", "internal/task/task.test", true},
		{".", "*.test", "x.test.go", false},
		{".", "node_modules/", "tools/contracts/node_modules/a/b.js", true},
		{"examples/python", "genbus/", "examples/python/genbus/v1/a.py", true},
		{"examples/python", "genbus/", "gen/genbus/v1/a.go", false},
	} {
		if pattern := inContext(row.dir, row.pattern); ignores(pattern, row.file) != row.want {
			t.Errorf("%s and %s: %v", pattern, row.file, !row.want)
		}
	}
}
