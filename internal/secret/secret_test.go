package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"signalbox/internal/secret"
)

func ring(t testing.TB, keys ...string) secret.Ring {
	t.Helper()
	r, err := secret.ParseRing(strings.Join(keys, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// W15: no way of printing shows a value, and nothing that was printed can be read as one.
func TestValuesShowThemselvesToNobody(t *testing.T) {
	t.Parallel()
	v := secret.New("hunter2")
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v, "in", struct{ V secret.Value }{v})
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v, "in", map[string]any{"v": v})
	raw, err := json.Marshal(map[string]any{"v": v, "p": &v})
	if err != nil {
		t.Fatal(err)
	}
	all := out.String() + string(raw) + fmt.Sprintf("%v %+v %#v %s %q %x %v %+v", v, &v, v, v, v, v, []secret.Value{v}, struct{ hidden secret.Value }{v}) + fmt.Sprint(fmt.Errorf("x: %v", v))
	if strings.Contains(all, "hunter2") || strings.Contains(all, fmt.Sprintf("%x", "hunter2")) {
		t.Errorf("shown in %s", all)
	}
	//lint:ignore SA9005 that nothing can be read into it is what is tested
	if err := json.Unmarshal([]byte(`"hunter2"`), &v); err == nil {
		t.Error("a value was read from JSON")
	}
	if !v.Equal(secret.New("hunter2")) || v.Equal(secret.New("hunter")) || v.Equal(secret.Value{}) || !(secret.Value{}).Equal(secret.New("")) {
		t.Error("equal is not equality")
	}
}

// S2, W15: a sealed value opens at its place alone, and only as it was.
func TestSealedValuesStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	first, second := secret.NewKey("one"), secret.NewKey("two")
	r := ring(t, first)
	sealed, err := r.Seal("providers.client_secret/1", secret.New("hunter2"))
	if err != nil || strings.Contains(sealed, "hunter2") || !strings.HasPrefix(sealed, "v1.one.") {
		t.Fatalf("%q, %v", sealed, err)
	}
	again, err := r.Seal("providers.client_secret/1", secret.New("hunter2"))
	if err != nil || again == sealed {
		t.Error("the same value seals to the same text, so equal secrets can be seen")
	}
	if v, err := r.Open("providers.client_secret/1", sealed); err != nil || v.Reveal() != "hunter2" {
		t.Errorf("%v, %v", v, err)
	}
	for _, place := range []string{"", "providers.client_secret/2", "sessions.id_token/1", "providers.client_secret/1 "} {
		if _, err := r.Open(place, sealed); err == nil {
			t.Errorf("it opens at %q", place)
		}
	}
	head := len("v1.one.")
	raw, err := base64.RawURLEncoding.DecodeString(sealed[head:])
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 1
		if _, err := r.Open("providers.client_secret/1", sealed[:head]+base64.RawURLEncoding.EncodeToString(changed)); err == nil {
			t.Errorf("byte %d may be changed", i)
		}
	}
	for _, bad := range []string{"hunter2", "v1.one", "v1.one.", "v1.one.%", "v2" + sealed[2:], "v1.two." + sealed[head:], sealed[:len(sealed)-4]} {
		if _, err := ring(t, first, second).Open("providers.client_secret/1", bad); err == nil {
			t.Errorf("%q opens", bad)
		}
	}

	// Rotation: the new key seals, the old one still opens, and once it is gone what it sealed says which key is missing.
	both := ring(t, second, first)
	if v, err := both.Open("providers.client_secret/1", sealed); err != nil || v.Reveal() != "hunter2" || both.Newest() != "two" {
		t.Errorf("with a newer key: %v, %v, newest %s", v, err, both.Newest())
	}
	if _, err := ring(t, second).Open("providers.client_secret/1", sealed); !errors.Is(err, secret.ErrNoKey) || !strings.Contains(err.Error(), `"one"`) {
		t.Errorf("without its key: %v", err)
	}
	if _, err := (secret.Ring{}).Seal("x", secret.New("y")); !errors.Is(err, secret.ErrNoKey) {
		t.Errorf("sealed without a key: %v", err)
	}
	if text, err := (secret.Ring{}).Seal("x", secret.Value{}); err != nil || text != "" {
		t.Errorf("nothing was sealed as %q, %v", text, err)
	}
}

// S3: keys that are short, weak or ambiguous are refused, without being shown.
func TestWeakKeysAreRefused(t *testing.T) {
	t.Parallel()
	encode := base64.StdEncoding.EncodeToString
	good := secret.NewKey("a")
	for name, text := range map[string]string{
		"no name": encode(make([]byte, 32)), "short": "a:" + encode([]byte("0123456789abcdef")), "long": "a:" + encode([]byte(strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 2))),
		"zeros": "a:" + encode(make([]byte, 32)), "two bytes": "a:" + encode(bytes.Repeat([]byte("ab"), 16)), "words": "a:" + encode([]byte("passwordpasswordpasswordpassword")),
		"no base64": "a:" + strings.Repeat("!", 44), "same name twice": good + "," + secret.NewKey("a"), "name with a dot": "a.b" + good[1:], "capitals": "A" + good[1:], "empty name": good[1:],
	} {
		_, err := secret.ParseRing(text)
		if err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		if _, encoded, _ := strings.Cut(text, ":"); encoded != "" && strings.Contains(err.Error(), encoded) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
	if r, err := secret.ParseRing(" \n"); err != nil || r.Newest() != "" {
		t.Errorf("no key: %v", err)
	}
}
