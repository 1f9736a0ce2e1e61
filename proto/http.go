// Package proto holds the HTTP rules of the contract. Its messages are in gen/genbus/v1.
package proto

import _ "embed" // http.yaml

// HTTPRules is genbus/v1/http.yaml, a google.api.Service: the paths under /genbus/v1/ that the
// generated gateway serves.
//
//go:embed genbus/v1/http.yaml
var HTTPRules []byte
