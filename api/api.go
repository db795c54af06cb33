// Package api owns the one contract of the JSON API and embeds it, so that the server publishes exactly
// the document that its types were generated from. It refuses to interpret it.
package api

import _ "embed"

// OpenAPI is the document as served at /api/openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
