package signalbox_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// asvsID is a control of the standard: chapter, section, number.
var asvsID = regexp.MustCompile(`^\d{1,2}\.\d{1,2}\.\d{1,2}$`)

// TestSecurityPages holds docs/threat-model.md and docs/asvs.md to the tests: a threat and a control that is said to be there name
// at least one, each of them exists; what is there in part says what is missing.
func TestSecurityPages(t *testing.T) {
	t.Parallel()
	tests := testsByPackage(t)
	// The tests at the root are called by the module's name.
	tests.functions[module], tests.text[module] = tests.functions["."], tests.text["."]
	threats, controls, gaps := 0, map[string]bool{}, 0
	for _, page := range []string{"docs/threat-model.md", "docs/asvs.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		head := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "|") {
				head = ""
				continue
			}
			if head == "" {
				head = line
			}
			if line == head || strings.HasPrefix(line, "| ---") {
				continue
			}
			cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			switch {
			case head == "| threat | what holds | tests |" && len(cells) == 3:
				threats++
				tests.check(t, page, cells[2])
			case head == "| id | applies | control | tests |" && len(cells) == 4:
				id, applies, control, named := cells[0], cells[1], cells[2], cells[3]
				if !asvsID.MatchString(id) || controls[id] || control == "" {
					t.Errorf("%s: no control, or it stands there twice: %s", page, line)
				}
				controls[id] = true
				switch applies {
				case "yes", "partly":
					tests.check(t, page, named)
				case "no", "operator":
					if named != "" {
						t.Errorf("%s: %s names a test for what is not ours", page, id)
					}
				default:
					t.Errorf("%s: %s applies: %q", page, id, applies)
				}
				if (applies == "partly") != strings.Contains(control, "Gap: ") {
					t.Errorf("%s: %s is there in part exactly where it says what is missing", page, id)
				}
				if applies == "partly" {
					gaps++
				}
			case strings.HasPrefix(head, "| threat |"), strings.HasPrefix(head, "| id |"):
				t.Errorf("%s: %d cells: %s", page, len(cells), line)
			}
		}
	}
	if threats < 40 || len(controls) < 120 {
		t.Errorf("%d threats and %d controls: rows are missing or cannot be read", threats, len(controls))
	}
	t.Logf("%d threats, %d controls, %d of them in part", threats, len(controls), gaps)
}
