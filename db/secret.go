package db

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"regexp"
	"strings"
)

// Prefixes of bearer tokens: a scanner and a reader can tell what they found (S6).
const (
	// PrefixLogin is a person's login from the command line; it may decide gates.
	PrefixLogin = "sbp_"
	// PrefixToken is an API token; it never decides.
	PrefixToken = "sbt_"
	// PrefixWorker is a worker's credential.
	PrefixWorker = "sbw_"
	// PrefixEnrolment is a one-time token that a worker trades for its credential. It opens no route.
	PrefixEnrolment = "sbe_"
	// PrefixAdminLink is a one-time link that makes an administrator. It opens no route.
	PrefixAdminLink = "sba_"
)

const (
	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	// 43 digits of base 62 hold 256 bits; 6 hold the checksum.
	bodyLen = 43
	sumLen  = 6
)

// Mint makes a bearer token: a prefix, 256 random bits and a checksum by which a scanner knows it without asking us.
// prefix is one of the constants.
func Mint(prefix string) string {
	var b [32]byte
	// crypto/rand never fails: the program stops instead.
	_, _ = rand.Read(b[:])
	body := digits(new(big.Int).SetBytes(b[:]), bodyLen)
	return prefix + body + checksum(prefix+body)
}

// HashToken is what the database keeps of a token. 256 random bits need no slow hash.
func HashToken(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

func checksum(s string) string {
	return digits(big.NewInt(int64(crc32.ChecksumIEEE([]byte(s)))), sumLen)
}

func digits(n *big.Int, width int) string {
	out := make([]byte, width)
	base, rest := big.NewInt(62), new(big.Int)
	for i := width - 1; i >= 0; i-- {
		n.DivMod(n, base, rest)
		out[i] = base62[rest.Int64()]
	}
	return string(out)
}

// tokenLike finds what may be a token of ours, also one that was cut off, runs on, or follows another without a gap.
var tokenLike = regexp.MustCompile(`sb[apetw]_[0-9A-Za-z_]{16,}`)

// HideTokens takes tokens out of text for a log, such as an address that somebody pasted one into.
func HideTokens(text string) string {
	return tokenLike.ReplaceAllStringFunc(text, func(t string) string { return t[:4] + "[redacted]" })
}

// WellFormed tells a token of ours from other text without asking the database.
func WellFormed(secret string) bool {
	if len(secret) != 4+bodyLen+sumLen {
		return false
	}
	switch secret[:4] {
	case PrefixLogin, PrefixToken, PrefixWorker, PrefixEnrolment, PrefixAdminLink:
	default:
		return false
	}
	if strings.Trim(secret[4:], base62) != "" {
		return false
	}
	return checksum(secret[:4+bodyLen]) == secret[4+bodyLen:]
}

// NewSecret is 256 random bits as 43 letters and digits: a name for a cookie, a login attempt or a one-time code.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return digits(new(big.Int).SetBytes(b[:]), bodyLen)
}
