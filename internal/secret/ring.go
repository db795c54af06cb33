package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Ring is the keys under which secrets lie in the database: the first seals, all of them open. The zero value has no key.
type Ring struct{ keys []key }

type key struct {
	id   string
	aead cipher.AEAD
}

// sealedForm is how a sealed value begins; the id of its key follows.
const sealedForm = "v1"

var keyID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// ErrNoKey is a value that no key of the ring opens: the key was taken out too early, or it is another installation's.
var ErrNoKey = errors.New("no key of the ring opens it")

// ParseRing reads keys, newest first, between blanks, commas or line ends: each a name, a colon and the base64 of 32 random
// bytes. An empty text is a ring without a key. Errors never show a key.
func ParseRing(text string) (Ring, error) {
	var r Ring
	seen := map[string]bool{}
	for i, field := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" ,\t\r\n", c) }) {
		id, encoded, ok := strings.Cut(field, ":")
		if !ok || !keyID.MatchString(id) || seen[id] {
			return Ring{}, fmt.Errorf("key %d: want a name of small letters, digits and dashes that no other key has, a colon, and the key", i+1)
		}
		seen[id] = true
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(raw) != 32 {
			return Ring{}, fmt.Errorf("key %q: want the base64 of 32 bytes (openssl rand -base64 32)", id)
		}
		different := map[byte]bool{}
		for _, b := range raw {
			different[b] = true
		}
		// Of 32 random bytes fewer than 20 are different less than once in 10^9.
		if len(different) < 20 {
			return Ring{}, fmt.Errorf("key %q is not random; make one with openssl rand -base64 32", id)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return Ring{}, fmt.Errorf("key %q: %w", id, err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return Ring{}, fmt.Errorf("key %q: %w", id, err)
		}
		r.keys = append(r.keys, key{id, aead})
	}
	return r, nil
}

// NewKey is a key as ParseRing reads it, under the given name.
func NewKey(id string) string {
	var raw [32]byte
	// crypto/rand never fails: the program stops instead.
	_, _ = rand.Read(raw[:])
	return id + ":" + base64.StdEncoding.EncodeToString(raw[:])
}

// Newest is the name of the key that seals; empty where there is none.
func (r Ring) Newest() string {
	if len(r.keys) == 0 {
		return ""
	}
	return r.keys[0].id
}

// Seal encrypts a value for one place, such as a column of one row: it opens there and nowhere else. An unset value stays
// empty. Without a key it is ErrNoKey.
func (r Ring) Seal(place string, v Value) (string, error) {
	if !v.IsSet() {
		return "", nil
	}
	if len(r.keys) == 0 {
		return "", ErrNoKey
	}
	k := r.keys[0]
	head := sealedForm + "." + k.id + "."
	// Form and key are part of what is authenticated, so that neither can be exchanged.
	return head + base64.RawURLEncoding.EncodeToString(k.aead.Seal(nil, nil, []byte(v.Reveal()), []byte(head+place))), nil
}

// Open decrypts what Seal made for the same place. What was changed, moved or sealed under a key that is not in the ring does
// not open.
func (r Ring) Open(place, sealed string) (Value, error) {
	if sealed == "" {
		return Value{}, nil
	}
	parts := strings.SplitN(sealed, ".", 3)
	if len(parts) != 3 || parts[0] != sealedForm {
		return Value{}, errors.New("the stored secret is in no form that is known")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return Value{}, errors.New("the stored secret is damaged")
	}
	for _, k := range r.keys {
		if k.id != parts[1] {
			continue
		}
		text, err := k.aead.Open(nil, nil, raw, []byte(parts[0]+"."+parts[1]+"."+place))
		if err != nil {
			return Value{}, errors.New("the stored secret was changed, or belongs elsewhere")
		}
		return New(string(text)), nil
	}
	return Value{}, fmt.Errorf("the stored secret is sealed under the key %q: %w", parts[1], ErrNoKey)
}
