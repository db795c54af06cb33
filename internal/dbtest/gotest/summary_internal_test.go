package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A stream as `go test -json` writes it: a pass, a failure, a skip, something not exercised, a package that does not
// build, one that panics outside a test, and a line that is no JSON.
const stream = `{"Action":"start","Package":"signalbox/a"}
{"Action":"output","Package":"signalbox/a","Test":"TestGood","Output":"    a_test.go:1: not exercised: no cgroups here\n"}
{"Action":"pass","Package":"signalbox/a","Test":"TestGood","Elapsed":2.5}
{"Action":"output","Package":"signalbox/a","Test":"TestBad","Output":"    a_test.go:9: want 1, got 2\n"}
{"Action":"fail","Package":"signalbox/a","Test":"TestBad","Elapsed":0.1}
{"Action":"skip","Package":"signalbox/a","Test":"TestSkipped","Elapsed":0}
{"Action":"fail","Package":"signalbox/a","Elapsed":2.7}
{"ImportPath":"signalbox/b","Action":"build-output","Output":"b/b.go:3:1: syntax error\n"}
{"Action":"fail","Package":"signalbox/b","Elapsed":0,"FailedBuild":"signalbox/b"}
{"Action":"output","Package":"signalbox/c","Output":"panic: in TestMain\n"}
{"Action":"fail","Package":"signalbox/c","Elapsed":0.2}
go: a message of the tool itself
`

func TestSummaryHidesNoFailure(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newSummary(&out)
	if err := s.read(strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	s.print(3 * time.Second)
	for _, want := range []string{
		"want 1, got 2", "b/b.go:3:1: syntax error", "panic: in TestMain", "go: a message of the tool itself",
		"no cgroups here", "a.TestSkipped", "2.50s  a.TestGood", "b (the package itself)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary does not say %q", want)
		}
	}
	if !strings.HasSuffix(out.String(), "\n1 passed, 3 failed, 1 skipped\n") {
		t.Errorf("the closing line is wrong:\n%s", out.String())
	}
}
