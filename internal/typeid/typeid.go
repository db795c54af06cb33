// Package typeid owns how keys are shown: a UUIDv7 in the database, a prefix
// and 26 characters in addresses and answers ("run_01jd…"). It refuses any
// spelling that it would not write itself, so one object has one address.
package typeid

import (
	"github.com/google/uuid"
	jetify "go.jetify.com/typeid"

	"signalbox/internal/fault"
)

// Prefix names what sort of object an id is for.
type Prefix = string

// Prefixes, one for each sort of object that has an address.
const (
	Task      Prefix = "task"
	Run       Prefix = "run"
	Attempt   Prefix = "att"
	Step      Prefix = "step"
	Lease     Prefix = "lease"
	Gate      Prefix = "gate"
	Worker    Prefix = "wrk"
	Enrolment Prefix = "enr"
	Boot      Prefix = "boot"
	Repo      Prefix = "repo"
	Artifact  Prefix = "art"
	Pull      Prefix = "pr"
	Op        Prefix = "op"
	User      Prefix = "user"
	Forge     Prefix = "forge"
	Policy    Prefix = "pol"
	Decision  Prefix = "dec"
	Campaign  Prefix = "camp"
	Tenant    Prefix = "ten"
	Token     Prefix = "tok"
	Session   Prefix = "sess"
	Provider  Prefix = "idp"
	Event     Prefix = "evt"
	Revision  Prefix = "rev"
	Patch     Prefix = "patch"
	Template  Prefix = "tpl"
	Audit     Prefix = "aud"
)

// New returns a fresh UUIDv7: ordered by the time of its making.
func New() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// Format shows id with prefix. The nil UUID is shown as the empty string, for
// absent references. The prefix must be one of the constants above.
func Format(prefix Prefix, id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	t, err := jetify.FromUUIDBytesWithPrefix(prefix, id[:])
	if err != nil {
		// Only a prefix that is not lower-case letters can fail, and those
		// are constants of ours.
		panic("typeid: bad prefix " + prefix)
	}
	return t.String()
}

// Parse reads what Format wrote. Errors are fault.NotFound with a sentence
// for people (an id that cannot exist names nothing), code "bad_id".
func Parse(prefix Prefix, s string) (uuid.UUID, error) {
	t, err := jetify.FromString(s)
	if err != nil || t.Prefix() != prefix {
		return uuid.Nil, bad(prefix)
	}
	id, err := uuid.FromBytes(t.UUIDBytes())
	if err != nil || id == uuid.Nil || t.String() != s || Format(prefix, id) != s {
		return uuid.Nil, bad(prefix)
	}
	return id, nil
}

// ParseField is Parse for an id inside a request body or query: the fault is
// Invalid and names the field.
func ParseField(field string, prefix Prefix, s string) (uuid.UUID, error) {
	id, err := Parse(prefix, s)
	if err != nil {
		return uuid.Nil, fault.Newf(fault.Invalid,
			"The request was not accepted: %s must be an id that begins with %s_.", field, prefix).
			WithField(field).WithCode("bad_id")
	}
	return id, nil
}

func bad(prefix Prefix) error {
	return fault.Newf(fault.NotFound,
		"Nothing was found under this address: it needs an id that begins with %s_, as shown in lists and links.", prefix).
		WithCode("bad_id")
}
