// Package e2e_test walks whole journeys through the real product: over HTTP as a person without JavaScript, and in a
// real browser. It owns no part of the product and refuses doubles for any.
package e2e_test

import (
	"testing"

	"signalbox/internal/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
