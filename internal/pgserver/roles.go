package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// startTimeout is generous because crash recovery after a kill comes before the first connection.
const startTimeout = 60 * time.Second

// await polls until the server answers, and explains itself with the end of the server's log when it does not.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL(Superuser, "postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.proc.exited:
			return fmt.Errorf("postgres in %s ended during its start (%s):\n%s", s.dir, s.proc.state, s.logTail())
		case <-ctx.Done():
			return fmt.Errorf("postgres in %s did not answer in time (%w):\n%s", s.dir, errors.Join(ctx.Err(), err), s.logTail())
		case <-tick.C:
		}
	}
}

// ensureRoles makes what is missing of the three roles and the database, so that an interrupted first start is
// finished by the next one. The statements hold constants only.
func (s *Server) ensureRoles(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL(Superuser, "postgres"))
	if err != nil {
		return fmt.Errorf("connect to make the roles: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, role := range []string{Owner, Engine, App} {
		statement := fmt.Sprintf(`DO $$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '%[1]s') THEN
				CREATE ROLE %[1]s LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
			END IF; END $$`, role)
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make the role %s: %w", role, err)
		}
	}
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, Database).Scan(&exists); err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, fmt.Sprintf(`CREATE DATABASE %s OWNER %s`, Database, Owner)); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	return nil
}

// logTail is the end of the server's log, at most 2 KiB in whole lines.
func (s *Server) logTail() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	const most = 2 << 10
	if len(text) > most {
		text = text[len(text)-most:]
		if _, rest, ok := strings.Cut(string(text), "\n"); ok {
			return rest
		}
	}
	return string(text)
}
