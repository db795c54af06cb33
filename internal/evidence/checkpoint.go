package evidence

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// checkpointMagic begins what a checkpoint's signature covers.
const checkpointMagic = "signalbox audit checkpoint v1\n"

// Checkpoint says which hash a tenant's audit log had at a number. Kept where whoever can write to the database cannot, it
// shows that rows were taken off the log's end, or that the log was written anew: the log alone cannot.
type Checkpoint struct {
	Tenant    uuid.UUID
	Seq       int64
	Head      []byte
	At        time.Time // to the microsecond
	Key       string    // which key signed it, see KeyID
	Signature []byte
}

// KeyID names a key: the first eight bytes of the public key's SHA-256, in hex.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// SigningKey reads an ed25519 key from the base64 of its 32 bytes.
func SigningKey(text string) (ed25519.PrivateKey, error) {
	seed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("want the base64 of 32 random bytes, as `openssl rand -base64 32` prints them")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// PublicKey reads a public key from the base64 of its 32 bytes.
func PublicKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("want the base64 of the 32 bytes of an ed25519 public key, as `signalbox audit key` prints them")
	}
	return ed25519.PublicKey(raw), nil
}

func (c Checkpoint) signed() []byte {
	b := append([]byte(checkpointMagic), c.Tenant[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(c.At.UnixMicro()))
	b = appendField(b, c.Head)
	return appendField(b, []byte(c.Key))
}

// Sign makes a checkpoint.
func Sign(key ed25519.PrivateKey, tenant uuid.UUID, seq int64, head []byte, at time.Time) Checkpoint {
	public, _ := key.Public().(ed25519.PublicKey)
	c := Checkpoint{Tenant: tenant, Seq: seq, Head: head, At: at.UTC().Truncate(time.Microsecond), Key: KeyID(public)}
	c.Signature = ed25519.Sign(key, c.signed())
	return c
}

// Genuine reports whether one of the keys signed the checkpoint as it stands.
func (c Checkpoint) Genuine(keys []ed25519.PublicKey) bool {
	for _, key := range keys {
		if KeyID(key) == c.Key && ed25519.Verify(key, c.signed(), c.Signature) {
			return true
		}
	}
	return false
}

type checkpointLine struct {
	V         int       `json:"v"`
	Tenant    uuid.UUID `json:"tenant"`
	Number    int64     `json:"number"`
	Head      string    `json:"head"`
	At        time.Time `json:"at"`
	Key       string    `json:"key"`
	Signature []byte    `json:"signature"`
}

// Line writes the checkpoint as one line of JSON, with its end.
func (c Checkpoint) Line() ([]byte, error) {
	raw, err := json.Marshal(checkpointLine{1, c.Tenant, c.Seq, hex.EncodeToString(c.Head), c.At, c.Key, c.Signature})
	if err != nil {
		return nil, fmt.Errorf("write checkpoint: %w", err)
	}
	return append(raw, '\n'), nil
}

// ParseCheckpoint reads what Line wrote. It says nothing about the signature.
func ParseCheckpoint(line []byte) (Checkpoint, error) {
	var l checkpointLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	head, err := hex.DecodeString(l.Head)
	if l.V != 1 || err != nil || len(head) != sha256.Size || l.Number < 1 || d.More() {
		return Checkpoint{}, errors.New("read checkpoint: not a checkpoint of version 1")
	}
	return Checkpoint{Tenant: l.Tenant, Seq: l.Number, Head: head, At: l.At.UTC(), Key: l.Key, Signature: l.Signature}, nil
}
