package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"

	"github.com/genbus/genbus/internal/style"
)

type assets map[string]asset

type asset struct {
	body                 []byte
	contentType, version string
}

var contentTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func readAssets() (assets, error) {
	all := assets{}
	all.add("style.css", []byte(style.Sheet))
	all.add("icon.svg", []byte(style.Icon))
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		body, err := fs.ReadFile(files, "static/"+e.Name())
		if err != nil {
			return nil, err
		}
		all.add(e.Name(), body)
	}
	return all, nil
}

func (a assets) add(name string, body []byte) {
	sum := sha256.Sum256(body)
	a[name] = asset{body: body, contentType: contentTypes[path.Ext(name)], version: hex.EncodeToString(sum[:8])}
}

// url returns the URL of a file. The URL changes when the file does.
func (a assets) url(name string) string {
	return Path + "/static/" + name + "?v=" + a[name].version
}

//go:embed templates static
var files embed.FS
