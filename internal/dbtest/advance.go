package dbtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/pgserver"
)

// fixedInstants are the tables whose instants are sealed by a hash or are evidence of what people did; time passing
// does not change them.
var fixedInstants = []string{"run_events", "audit_log", "decisions", "goose_db_version"}

// Advance makes d pass for the database: the database clock cannot be faked, so every instant in every row moves d
// into the past (D-14), and what was due in d is due now. The log of events stays as it is, so instants in a run's row
// are then earlier than its events say; a test that replays compares before it advances.
func Advance(t testing.TB, d Database, by time.Duration) {
	t.Helper()
	url, err := retarget(d.admin, pgserver.Superuser, d.Name)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("dbtest: connect to advance: %v", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := advance(ctx, conn, by); err != nil {
		t.Fatalf("dbtest: advance by %s: %v", by, err)
	}
}

func advance(ctx context.Context, conn *pgx.Conn, by time.Duration) error {
	rows, err := conn.Query(ctx, `
		SELECT c.table_name, array_agg(quote_ident(c.column_name) ORDER BY c.column_name)
		FROM information_schema.columns c
		JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.data_type = 'timestamp with time zone'
		  AND c.is_generated = 'NEVER' AND NOT c.table_name = ANY ($1)
		GROUP BY c.table_name ORDER BY c.table_name`, fixedInstants)
	if err != nil {
		return err
	}
	type table struct {
		Name    string
		Columns []string
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Triggers guard what the product may write; passing time is not a write of the product.
		if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		for _, tb := range tables {
			var set []string
			for _, column := range tb.Columns {
				set = append(set, fmt.Sprintf(`%[1]s = %[1]s - $1::interval`, column))
			}
			statement := fmt.Sprintf(`UPDATE %s SET %s`, pgx.Identifier{tb.Name}.Sanitize(), strings.Join(set, ", "))
			if _, err := tx.Exec(ctx, statement, by); err != nil {
				return fmt.Errorf("%s: %w", tb.Name, err)
			}
		}
		return nil
	})
}
