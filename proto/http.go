package proto

import _ "embed" // for http.yaml

// HTTPRules is genbus/v1/http.yaml, a google.api.Service. It lists the paths under /genbus/v1/ that
// the generated gateway serves.
//
//go:embed genbus/v1/http.yaml
var HTTPRules []byte
