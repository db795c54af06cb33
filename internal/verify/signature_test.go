package verify_test

import (
	"testing"

	"signalbox/internal/verify"
)

// R-FAIL-9: the same failure has the same signature whenever and wherever it is run again; a failure that differs only
// in a number of its own is another one, so that a repair that moved something is not taken for none.
func TestSignature(t *testing.T) {
	t.Parallel()
	of := func(output string) string {
		return verify.Report{Commands: []verify.CommandReport{{
			Name: "test", Class: verify.ClassFailed, Blocks: true, ExitCode: 1, Output: verify.Output{Tail: output},
		}}}.Signature()
	}
	for name, pair := range map[string][2]string{
		"go test duration":      {"--- FAIL: TestA (0.03s)\nFAIL\tacme/api\t0.412s", "--- FAIL: TestA (1.21s)\nFAIL\tacme/api\t12.5s"},
		"compound duration":     {"timed out after 1m30.5s", "timed out after 2m0s"},
		"words of a duration":   {"Ran 3 tests in 0.005 seconds", "Ran 3 tests in 1.2 seconds"},
		"time stamp":            {"2026-11-29T18:00:01.123Z boom", "2027-01-02T03:04:05Z boom"},
		"log time":              {"2026/11/29 18:00:01 boom", "2026/11/30 09:10:11 boom"},
		"clock":                 {"[18:00:01] boom", "[9:10:11.5] boom"},
		"address":               {"panic at 0xc000123450", "panic at 0x14000abcdef"},
		"line of Go":            {"    a_test.go:12: got 3", "    a_test.go:140: got 3"},
		"line and column":       {"main.ts:12:7 - error", "main.ts:13:9 - error"},
		"line of C#":            {"Foo.cs(12,7): error", "Foo.cs(13,9): error"},
		"line of Python":        {`File "a.py", line 12, in f`, `File "a.py", line 99, in f`},
		"goroutine":             {"goroutine 7 [running]:", "goroutine 21 [running]:"},
		"port":                  {"dial 127.0.0.1:40123: refused", "dial 127.0.0.1:55999: refused"},
		"temporary folder":      {"open /tmp/TestA123/001/x: no", "open /tmp/TestA987/001/x: no"},
		"id":                    {"run 0198c0de-0000-7000-8000-000000000001 lost", "run 0198c0de-1111-7111-8111-111111111111 lost"},
		"white space and paint": {"\x1b[31mFAIL\x1b[0m  x\r\n", "FAIL x \n"},
	} {
		if of(pair[0]) != of(pair[1]) {
			t.Errorf("%s: %q and %q are told apart", name, pair[0], pair[1])
		}
	}
	for name, pair := range map[string][2]string{
		"value":      {"a_test.go:12: got 3, want 5", "a_test.go:12: got 4, want 5"},
		"count":      {"3 of 10 tests failed", "2 of 10 tests failed"},
		"name":       {"--- FAIL: Test1 (0.03s)", "--- FAIL: Test2 (0.03s)"},
		"percentage": {"coverage 71.3% is below 80%", "coverage 79.9% is below 80%"},
		"version":    {"needs v1.22.3", "needs v1.23.0"},
		"status":     {"HTTP 500", "HTTP 404"},
	} {
		if of(pair[0]) == of(pair[1]) {
			t.Errorf("%s: %q and %q are taken for the same", name, pair[0], pair[1])
		}
	}
	if s := (verify.Report{Commands: []verify.CommandReport{{Name: "lint", Class: verify.ClassFailed, ExitCode: 1}}}).Signature(); s != "" {
		t.Errorf("a failure that blocks nothing has the signature %s", s)
	}
}
