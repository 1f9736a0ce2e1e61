// Package style holds the look that the console and the page /docs share.
package style

import _ "embed"

// Sheet is the style sheet, and Icon an SVG image.
var (
	//go:embed style.css
	Sheet string
	//go:embed icon.svg
	Icon string
)
