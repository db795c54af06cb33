package main

import "testing"

// Each mutant still finds its place, and has a name of its own.
func TestMutantsFindTheirPlace(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range mutants() {
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		names[m.name] = true
		if _, err := m.broken("../.."); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if len(names) < 10 {
		t.Errorf("%d mutants, want ten", len(names))
	}
}
