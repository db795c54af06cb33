package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// auditMagic begins the canonical bytes of an audit row; another encoding would get another one.
const auditMagic = "signalbox audit v1\n"

// AuditRow is one row of the audit log with every column that its hash covers, which is every column but the hash.
type AuditRow struct {
	Tenant uuid.UUID
	Seq    int64 // 1, 2, … of its tenant
	ID     int64
	At     int64  // microseconds since the beginning of 2000 in UTC, as Postgres stores an instant
	Xid    string // transaction
	// Who did what, from where, to what, how it ended and why.
	ActorKind, ActorID, ActorName  string
	Channel, RemoteAddr, RequestID string
	Action, ObjectType, ObjectID   string
	Result, Reason                 string
	Detail                         string // the text of the JSON as the database prints it
}

// texts are the fields that are written with their lengths, in the order of the encoding.
func (r *AuditRow) texts() []*string {
	return []*string{&r.Xid, &r.ActorKind, &r.ActorID, &r.ActorName, &r.Channel, &r.RemoteAddr, &r.RequestID, &r.Action,
		&r.ObjectType, &r.ObjectID, &r.Result, &r.Reason, &r.Detail}
}

// AuditBody returns the canonical bytes of a row: two different rows never have the same. The function audit_record of the
// schema makes the same bytes.
func AuditBody(r AuditRow) []byte {
	b := make([]byte, 0, 512)
	b = append(b, auditMagic...)
	b = append(b, r.Tenant[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(r.ID))
	b = binary.BigEndian.AppendUint64(b, uint64(r.At))
	for _, text := range r.texts() {
		b = appendField(b, []byte(*text))
	}
	return b
}

// ParseAuditBody reads what AuditBody wrote, and nothing else.
func ParseAuditBody(body []byte) (AuditRow, error) {
	rest, ok := bytes.CutPrefix(body, []byte(auditMagic))
	if !ok {
		return AuditRow{}, errors.New("audit row: unknown encoding")
	}
	in := reader{rest: rest}
	var r AuditRow
	copy(r.Tenant[:], in.take(16))
	r.Seq, r.ID, r.At = int64(in.number()), int64(in.number()), int64(in.number())
	for _, text := range r.texts() {
		*text = string(in.field())
	}
	switch {
	case in.err != nil:
		return AuditRow{}, fmt.Errorf("audit row: %w", in.err)
	case len(in.rest) > 0:
		return AuditRow{}, fmt.Errorf("audit row: %d bytes too many", len(in.rest))
	}
	return r, nil
}

// BrokenAuditError says from which number on a tenant's audit log cannot be trusted. Its words are safe to show.
type BrokenAuditError struct {
	Tenant uuid.UUID
	Seq    int64
	Why    string
}

// Error names the number and the reason.
func (e *BrokenAuditError) Error() string { return fmt.Sprintf("number %d: %s", e.Seq, e.Why) }

// AuditChain checks one tenant's audit log, row by row in the order of their numbers, against checkpoints that were kept elsewhere.
type AuditChain struct {
	tenant      uuid.UUID
	seq         int64
	hash        []byte
	checkpoints map[int64][]Checkpoint
	// vouched is the highest number that a checkpoint agreed with so far, last the highest that one speaks of.
	vouched, last int64
}

// NewAuditChain begins before number 1. The checkpoints' signatures are the caller's to check; those of other tenants count for nothing.
func NewAuditChain(tenant uuid.UUID, checkpoints []Checkpoint) *AuditChain {
	c := &AuditChain{tenant: tenant, checkpoints: map[int64][]Checkpoint{}}
	for _, p := range checkpoints {
		if p.Tenant == tenant {
			c.checkpoints[p.Seq] = append(c.checkpoints[p.Seq], p)
			c.last = max(c.last, p.Seq)
		}
	}
	return c
}

// Checked is the highest number that was found to be right.
func (c *AuditChain) Checked() int64 { return c.seq }

// Vouched is the highest number up to which a checkpoint agrees; what comes after it could have been taken off the end unnoticed.
func (c *AuditChain) Vouched() int64 { return c.vouched }

// Next takes the next row with the hash that is stored beside it. After an error the chain is of no further use.
func (c *AuditChain) Next(r AuditRow, stored []byte) error {
	want := c.seq + 1
	switch {
	case r.Tenant != c.tenant:
		return c.broken(want, "the row belongs to another tenant")
	case r.Seq > want:
		return c.broken(want, fmt.Sprintf("it is missing, the next row is number %d", r.Seq))
	case r.Seq < want && r.Seq < 1:
		return c.broken(want, fmt.Sprintf("a row stands before it with number %d, and the first is 1", r.Seq))
	case r.Seq < want:
		return c.broken(r.Seq, "there are two rows of this number")
	}
	sum := Hash(c.hash, AuditBody(r))
	if !bytes.Equal(sum, stored) {
		return c.broken(want, "the hash does not fit the row and the rows before it: the row was changed, exchanged or inserted, or its hash was")
	}
	for _, p := range c.checkpoints[want] {
		if !bytes.Equal(p.Head, sum) {
			return c.broken(c.vouched+1, fmt.Sprintf("the checkpoint of %s over numbers 1 to %d has another hash: a row in %d to %d was replaced and the hashes were made anew",
				p.At.UTC().Format("2006-01-02 15:04:05 UTC"), p.Seq, c.vouched+1, p.Seq))
		}
		c.vouched = want
	}
	c.seq, c.hash = want, sum
	return nil
}

// End compares what was read with the head that the database keeps, 0 and nothing where it keeps none.
func (c *AuditChain) End(seq int64, hash []byte) error {
	switch {
	case c.seq < c.last:
		return c.broken(c.seq+1, fmt.Sprintf("it is missing with all that follow: the log ends at %d, and a checkpoint of %s speaks of number %d",
			c.seq, c.checkpoints[c.last][0].At.UTC().Format("2006-01-02 15:04:05 UTC"), c.last))
	case c.seq < seq:
		return c.broken(c.seq+1, fmt.Sprintf("it is missing with all that follow: the log ends at %d, and its head says %d", c.seq, seq))
	case c.seq > seq:
		return c.broken(seq+1, fmt.Sprintf("the log goes on to %d, and its head says %d", c.seq, seq))
	case !bytes.Equal(c.hash, hash):
		return c.broken(max(c.seq, 1), "the head's hash is not that of the last row")
	}
	return nil
}

func (c *AuditChain) broken(seq int64, why string) error {
	return &BrokenAuditError{Tenant: c.tenant, Seq: seq, Why: why}
}
