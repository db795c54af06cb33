// Package migrations owns the schema: numbered SQL files, each with its way up
// and down, embedded and applied in order. It refuses to make database roles,
// which are cluster-wide and belong to the launcher or an operator.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that goose opens the database with
	"github.com/pressly/goose/v3"
)

// FS holds the migration files.
//
//go:embed *.sql
var FS embed.FS

// Up brings the database at url to the newest version. The role in url must own
// the database (signalbox_owner).
func Up(ctx context.Context, url string) error {
	return withProvider(url, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
}

// DownTo takes the database back to version; 0 removes everything.
func DownTo(ctx context.Context, url string, version int64) error {
	return withProvider(url, func(p *goose.Provider) error {
		_, err := p.DownTo(ctx, version)
		return err
	})
}

func withProvider(url string, do func(*goose.Provider) error) error {
	conn, err := sql.Open("pgx", url)
	if err != nil {
		return fmt.Errorf("open database for migrations: %w", err)
	}
	defer conn.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, conn, FS)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if err := do(p); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Hash identifies the set of migrations: equal hashes give equal schemas.
func Hash() string {
	h := sha256.New()
	names, err := fs.Glob(FS, "*.sql")
	if err != nil {
		// The pattern is a constant and well formed.
		panic(err)
	}
	for _, n := range names {
		b, err := FS.ReadFile(n)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(h, "%s %d\n", n, len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
