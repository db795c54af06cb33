package sandbox_test

import (
	"os"
	"testing"

	"signalbox/internal/sandbox"
)

func TestMain(m *testing.M) {
	// The test binary is the init of the boxes it opens.
	sandbox.InitMain()
	os.Exit(m.Run())
}
