//go:build tools

// Package bombardier keeps the version of the load generator of this name, which is built from its own module.
package bombardier

import _ "github.com/codesenberg/bombardier"
