package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/dbtest"
)

// caught is what the generated code would send.
type caught struct {
	sqlc.DBTX
	text string
	args []any
}

var errCaught = errors.New("caught")

func (c *caught) Query(_ context.Context, text string, args ...any) (pgx.Rows, error) {
	c.text, c.args = text, args
	return nil, errCaught
}

func writing(t *testing.T) (text string, args int) {
	t.Helper()
	c := &caught{}
	if _, err := sqlc.New().WriteTransitions(t.Context(), c, sqlc.WriteTransitionsParams{}); !errors.Is(err, errCaught) {
		t.Fatal(err)
	}
	return c.text, len(c.args)
}

// marks has a '+' at the positions that are given, and those of runs and events, which no transition is without.
func marks(n int, given ...int) string {
	b := []byte(strings.Repeat("-", n))
	for _, i := range append(given, 0, 1) {
		b[i] = '+'
	}
	return string(b)
}

var partName = regexp.MustCompile(`(?m)^(?:WITH |\), )([a-z_]+) AS \($`)

func parts(text string) (all []string) {
	for _, m := range partName.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// R-TRN-1: whatever a transition has rows for is in the statement that is sent, whichever those are.
func TestNothingThatHasRowsIsLeftOut(t *testing.T) {
	t.Parallel()
	text, n := writing(t)
	for seed := range 2000 {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		var given []int
		for i := range n {
			if r.IntN(3) == 0 {
				given = append(given, i)
			}
		}
		empty := marks(n, given...)
		sh := shorten(text, empty)
		for i := range n {
			if has := slices.Contains(sh.args, i); has != (empty[i] == '+') {
				t.Fatalf("%s: argument %d is sent: %t\n%s", empty, i+1, has, sh.text)
			}
		}
		for i := range sh.args {
			if !regexp.MustCompile(fmt.Sprintf(`\$%d\b`, i+1)).MatchString(sh.text) {
				t.Fatalf("%s: parameter %d is nowhere", empty, i+1)
			}
		}
		if strings.Contains(sh.text, fmt.Sprintf("$%d", len(sh.args)+1)) {
			t.Fatalf("%s: more parameters than arguments", empty)
		}
	}
}

func TestShortenedStatements(t *testing.T) {
	t.Parallel()
	text, n := writing(t)
	if whole := shorten(text, strings.Repeat("+", n)); whole.text != renumber(text).text || len(whole.args) != n {
		t.Errorf("with rows for everything the statement is cut:\n%s", whole.text)
	}
	if have := parts(shorten(text, marks(n)).text); !slices.Equal(have, []string{"u", "ev"}) {
		t.Errorf("the least statement has the parts %q", have)
	}

	// Postgres takes each of them: no part reads from one that is missing.
	pool, err := pgxpool.New(t.Context(), dbtest.New(t).EngineURL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	seen := map[string]bool{}
	for i := range n {
		sh := shorten(text, marks(n, i))
		for _, p := range parts(sh.text) {
			seen[p] = true
		}
		args := make([]any, len(sh.args))
		for a := range args {
			args[a] = json.RawMessage(noRows)
		}
		if _, err := pool.Exec(t.Context(), sh.text, args...); err != nil {
			t.Errorf("with rows for argument %d only: %v\n%s", i+1, err, sh.text)
		}
	}
	for _, p := range parts(text) {
		if !seen[p] {
			t.Errorf("the part %s is in no statement with rows for one argument", p)
		}
	}
}
