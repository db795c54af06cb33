// Package forge owns what Signalbox knows of places where pull requests live: the small interface that a publisher
// speaks, the texts that it publishes, and the git side of the built-in local forge (D-28).
//
// It refuses to hold run state or database rows: who may merge, which pull request belongs to which run and what was
// recorded about it are decided elsewhere. It never forces a branch and never believes that a pull request is ours
// because of a marker in its text.
package forge

import (
	"context"
	"time"
)

// State is a pull request's life on the forge.
type State string

// The states that a forge reports; the richer lifecycle of the record is not the forge's.
const (
	Open   State = "OPEN"
	Merged State = "MERGED"
	Closed State = "CLOSED"
)

// Repository names a repository on a forge. ID is our own id of it.
type Repository struct {
	ID   string
	Name string
}

// Draft is a pull request that must exist.
type Draft struct {
	Head    string // branch
	HeadSHA string // the pushed commit, which must be there already
	Base    string // branch
	Title   string
	Body    string
}

// Pull is a pull request as the forge tells it.
type Pull struct {
	ID      string
	Number  int64
	URL     string
	State   State
	Head    string
	HeadSHA string
	Base    string
	Title   string
	Body    string
	Created time.Time
}

// Forge is what publishing needs. Every method asks the forge; nothing is remembered.
type Forge interface {
	// Find lists the pull requests of a head branch in every state, the newest first.
	Find(ctx context.Context, repo Repository, head string) ([]Pull, error)
	// Create opens a pull request. Where an open one of that head exists, the forge may answer with it.
	Create(ctx context.Context, repo Repository, d Draft) (Pull, error)
	// Get reads one pull request again.
	Get(ctx context.Context, repo Repository, id string) (Pull, error)
}

// Existing looks for the pull request that a draft describes. It is found when an open one has our head branch; its
// commit is compared by the caller, because a different one means that somebody else wrote to the branch.
func Existing(ctx context.Context, f Forge, repo Repository, d Draft) (Pull, bool, error) {
	pulls, err := f.Find(ctx, repo, d.Head)
	if err != nil {
		return Pull{}, false, err
	}
	for _, p := range pulls {
		if p.Head == d.Head && p.Base == d.Base && p.State == Open {
			return p, true, nil
		}
	}
	return Pull{}, false, nil
}
