package handlers

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/patch"
)

// These are joined, so that a scan of this file finds nothing. The key is one only at the beginning of a word.
const (
	plantedSecret = "ghp_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX"
	plantedKey    = "AKIA" + "QYLPMN5HHHFPZAM2"
)

// plant puts text into every string below v, with one entry in each list and map, and counts the places.
func plant(t *testing.T, v reflect.Value, text string) (n int) {
	t.Helper()
	switch v.Type() {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[uuid.UUID]():
		return 0
	case reflect.TypeFor[json.RawMessage]():
		raw, err := json.Marshal(map[string]any{text: []string{text}, "n": 1})
		if err != nil {
			t.Fatal(err)
		}
		v.SetBytes(raw)
		return 1
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return 1
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return plant(t, v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return plant(t, v.Index(0), text)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		n = plant(t, value, text)
		v.SetMapIndex(reflect.ValueOf(text), value)
		return n + 1
	case reflect.Struct:
		for i := range v.NumField() {
			n += plant(t, v.Field(i), text)
		}
	}
	return n
}

// No field of a run's downloads carries a secret outside: run, effects, attempts, artifacts, gates, events, steps, and whatever
// field comes later. A line break before it, which JSON writes as two letters, hides nothing.
func TestDownloadsHoldNoSecret(t *testing.T) {
	t.Parallel()
	s := &server{scanner: patch.NewScanner()}
	for _, text := range []string{plantedSecret, "The last line\n" + plantedKey + "\nanother", `<"` + plantedSecret + `">`} {
		var doc diagnostics
		if n := plant(t, reflect.ValueOf(&doc).Elem(), text); n < 60 {
			t.Errorf("%d places are planted", n)
		}
		raw, err := s.withoutSecrets(t.Context(), doc)
		if err != nil || strings.Contains(string(raw), plantedSecret) || strings.Contains(string(raw), plantedKey) {
			t.Errorf("%q: %v: %s", text, err, raw)
		}
		var read map[string]any
		if err := json.Unmarshal(raw, &read); err != nil || read["schema"] != leftOut || read["run"].(map[string]any)["task_title"] != leftOut {
			t.Errorf("%q: %v, %v", text, err, read)
		}
	}
	var doc diagnostics
	plant(t, reflect.ValueOf(&doc).Elem(), `a "line"`+"\nof <words>")
	want, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := s.withoutSecrets(t.Context(), doc); err != nil || string(raw) != string(want) {
		t.Errorf("without a secret it is another document: %v: %s", err, raw)
	}
}

// Two texts that are one secret only together are left out together: an option and its value, the lines of a key.
func TestSecretsInTwoParts(t *testing.T) {
	t.Parallel()
	s, r := &server{scanner: patch.NewScanner()}, httptest.NewRequest("GET", "/", nil)
	value := "kq82jd" + "91mvxp47"
	doc := runExport{
		Events:  []exportedEvent{{Payload: json.RawMessage(`{"argv":["--api-key","` + value + `"]}`)}, {Payload: json.RawMessage(`{"argv":["ls"]}`)}},
		Effects: []db.Operation{{Parameters: map[string]string{"api_key": value}, Result: map[string]string{"number": "3"}}},
	}
	if err := s.unsecretParts(r, &doc); err != nil {
		t.Fatal(err)
	}
	if got := string(doc.Events[0].Payload); strings.Contains(got, value) || string(doc.Events[1].Payload) != `{"argv":["ls"]}` {
		t.Errorf("events: %s, %s", got, doc.Events[1].Payload)
	}
	if e := doc.Effects[0]; e.Parameters["api_key"] != "" || e.Result["number"] != "3" {
		t.Errorf("effects: %v, %v", e.Parameters, e.Result)
	}
	raw, err := s.withoutSecrets(t.Context(), map[string]any{"argv": []string{"--api-key", value}, "goal": "Replace one word."})
	if err != nil || strings.Contains(string(raw), value) || !strings.Contains(string(raw), `"--api-key"`) || !strings.Contains(string(raw), "Replace one word.") {
		t.Errorf("a field of its own: %v: %s", err, raw)
	}
	key := []string{"one line", "-----BEGIN RSA PRIVATE KEY-----", strings.Repeat("MIIEowIBAAKCAQEA7bq2", 3), strings.Repeat("kZ8fQm1xT0vR5sYc9LdE", 3), "-----END RSA PRIVATE KEY-----"}
	if got, err := s.unsecretLines(r, key); err != nil || len(got) != 1 || got[0] != leftOut {
		t.Errorf("a key over many lines: %q, %v", got, err)
	}
	if got, err := s.unsecretLines(r, []string{"one line", "token = " + plantedSecret}); err != nil || len(got) != 2 || got[0] != "one line" || got[1] != leftOut {
		t.Errorf("one line of two: %q, %v", got, err)
	}
}
