package handlers

import (
	"reflect"
	"regexp"
	"slices"
	"testing"

	"signalbox/internal/secret"
	"signalbox/internal/wire"
)

// shownOnce are the answers that give a secret to whoever made it, and never again.
var shownOnce = []string{"MintedToken.Secret"}

// W15: no answer of the API has a field that holds a stored secret, by its type or by its name.
func TestAnswersHoldNoSecret(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(?i)(secret|password|id_?token|credential|verifier|sealed|private_?key)`)
	harmless := regexp.MustCompile(`(?i)(_?ids?$|findings?$|^credentials?$)`) // names and counts of them
	seen := map[reflect.Type]bool{}
	fields := 0
	var look func(reflect.Type)
	look = func(r reflect.Type) {
		switch r.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			look(r.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[r] {
			return
		}
		seen[r] = true
		if r == reflect.TypeFor[secret.Value]() {
			t.Error("an answer holds a secret value")
		}
		for f := range r.Fields() {
			if !f.IsExported() {
				continue
			}
			fields++
			name := r.Name() + "." + f.Name
			if f.Type.Kind() == reflect.String && named.MatchString(f.Name) && !harmless.MatchString(f.Name) && !slices.Contains(shownOnce, name) {
				t.Errorf("%s sounds like a secret", name)
			}
			look(f.Type)
		}
	}
	answers := 0
	for m := range reflect.TypeFor[*wire.ClientWithResponses]().Methods() {
		if m.Type.NumOut() != 2 || m.Type.Out(0).Kind() != reflect.Pointer {
			continue
		}
		for f := range m.Type.Out(0).Elem().Fields() {
			if f.Name != "HTTPResponse" && f.Name != "Body" {
				answers++
				look(f.Type)
			}
		}
	}
	if answers < 60 {
		t.Errorf("only %d answers", answers)
	}
	t.Logf("W15: %d answers with %d fields, %d of them secrets that are shown once", answers, fields, len(shownOnce))
}
