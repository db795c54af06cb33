package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	jose "github.com/go-jose/go-jose/v4"
)

// key signs tokens; it is both the private and the public key of the op package's interfaces.
type key struct {
	private *rsa.PrivateKey
	der     []byte
	id      string
}

const keyFile = "oidc-signing-key.pem"

// loadKey reads the key in dir, or makes one there when there is none. The file is written under another name and
// renamed, so that an interrupted first start leaves no half of a key.
func loadKey(dir string) (*key, error) {
	path := filepath.Join(dir, keyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if text, err = makeKey(dir, path); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("read the provider's signing key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("the provider's signing key %s is damaged: remove it and everybody signs in again", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the provider's signing key %s: %w", path, err)
	}
	private, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the provider's signing key %s is a %T, want RSA", path, parsed)
	}
	sum := sha256.Sum256(x509.MarshalPKCS1PublicKey(&private.PublicKey))
	return &key{private: private, der: block.Bytes, id: hex.EncodeToString(sum[:8])}, nil
}

func makeKey(dir, path string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the provider's key folder: %w", err)
	}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make the provider's signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("encode the provider's signing key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return nil, fmt.Errorf("write the provider's signing key: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return nil, fmt.Errorf("write the provider's signing key: %w", err)
	}
	return text, nil
}

// ID and the next three make it an op.SigningKey.
func (k *key) ID() string                                  { return k.id }
func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *key) Key() any                                    { return k.private }

// publicKey is the half that the keys endpoint shows.
type publicKey struct{ *key }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return &k.private.PublicKey }
