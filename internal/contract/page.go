package contract

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/genbus/genbus/internal/style"
)

// page returns the page that shows the documents, in the look of the console, and its
// Content-Security-Policy. The policy allows only the page's own script and style, and requests to
// the same origin.
func page() (html []byte, policy string, err error) {
	var parts [3]string
	for i, name := range []string{"page.html", "page.css", "page.js"} {
		raw, err := files.ReadFile("page/" + name)
		if err != nil {
			return nil, "", err
		}
		parts[i] = string(raw)
	}
	parts[1] = style.Sheet + parts[1]
	text := strings.NewReplacer("{{style}}", parts[1], "{{script}}", parts[2]).Replace(parts[0])
	policy = fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", hash(parts[1]), hash(parts[2]))
	return []byte(text), policy, nil
}

// hash returns the policy source of an inline script or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
