package docs_test

import (
	"regexp"
	"testing"

	"github.com/genbus/genbus/internal/config"
)

var (
	yamlPattern   = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	secretPattern = regexp.MustCompile(`_env: ([A-Z0-9_]+)`)
)

// TestYAMLSamplesLoad proves that every YAML sample is a complete, valid configuration.
func TestYAMLSamplesLoad(t *testing.T) {
	t.Parallel()
	for name, text := range documents(t) {
		for _, m := range yamlPattern.FindAllStringSubmatch(text, -1) {
			source := config.Source{File: "sample.yaml", ReadFile: func(path string) ([]byte, error) {
				if path == "sample.yaml" {
					return []byte(m[1]), nil
				}
				return []byte("content-of-" + regexp.MustCompile(`\W`).ReplaceAllString(path, "-")), nil
			}}
			for _, secret := range secretPattern.FindAllStringSubmatch(m[1], -1) {
				source.Environ = append(source.Environ, secret[1]+"=value-of-"+secret[1])
			}
			if _, err := config.Load(source); err != nil {
				t.Errorf("%s: a sample does not load:\n%v\n%s", name, err, m[1])
			}
		}
	}
}
