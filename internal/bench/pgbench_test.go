package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"signalbox/db"
)

// rowsOfClient is how many rows each client of pgbench goes round, so that no two clients wait for each other's rows.
const rowsOfClient = 16

// bare runs the product's own statements by pgbench, on rows that a real transition left as templates.
type bare struct {
	p *product
	// write is the one statement of a transition as the server sends it; whole puts before it what the server reads for the request.
	write, whole string
	variables    []string
	first        int64       // version of the rows before the first round
	done         map[int]int // clients → transactions of each client so far
	base         map[int]int // clients → number of the first row
}

// queryText is a query of the queries folder by its name, without its comment lines.
func queryText(name string) (string, error) {
	files, err := filepath.Glob("../../queries/*.sql")
	if err != nil {
		return "", err
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		_, rest, found := strings.Cut(string(raw), "-- name: "+name+" ")
		if !found {
			continue
		}
		_, rest, _ = strings.Cut(rest, "\n")
		rest, _, _ = strings.Cut(rest, "-- name: ")
		text, _, _ := strings.Cut(bareOfComments(rest), ";")
		return strings.TrimSpace(text), nil
	}
	return "", fmt.Errorf("there is no query %s", name)
}

func bareOfComments(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "--") }), "\n")
}

// argument is how the statement takes its rows; keys and the versions before are no rows of a table as they are.
var (
	argument    = regexp.MustCompile(`json_populate_recordset\(NULL::([a-z_]+), \$[0-9]+::json\)`)
	keyArgument = regexp.MustCompile(`json_to_recordset\(\$[0-9]+::json\) AS k`)
	wasArgument = regexp.MustCompile(`json_to_recordset\(\$[0-9]+::json\) AS b`)
)

// Marks in a template, each of which becomes an expression of the script.
const (
	markRun     = "11111111-2222-4333-8444-555555555555"
	markVersion = "987654321098"
)

func (p *product) bare(levels []int) *bare {
	p.b.Helper()
	ctx := p.b.Context()
	x := &bare{p: p, done: map[int]int{}, base: map[int]int{}}
	leases := p.leased(10, nil)
	before, err := p.world.Store.RunInfo(ctx, leases[0].Ref.Tenant, leases[0].Ref.Run)
	p.must(err, "read the run")
	x.first = before.Version
	x.rows(ctx, leases[0], levels)
	c, err := p.dial()
	p.must(err, "connect")
	defer c.conn.Close()
	for _, l := range leases {
		_, err = c.do(p.command(l), http.StatusOK)
		p.must(err, "post a command")
		// The connection may have sent something else since; then the next transition shows it.
		var sent string
		const last = `SELECT coalesce((SELECT query FROM pg_stat_activity WHERE usename = 'signalbox_engine' AND query LIKE '%name: WriteRuns %' ORDER BY state_change DESC LIMIT 1), '')`
		p.must(p.root.QueryRow(ctx, last).Scan(&sent), "read what was sent")
		if sent != "" {
			x.scripts(ctx, l, sent)
			return x
		}
	}
	p.b.Fatal("bench: the statement that the server sends was not seen")
	return nil
}

// rows copies the leased run, so that each client has rows of its own.
func (x *bare) rows(ctx context.Context, l db.Claimed, levels []int) {
	n := 0
	for _, clients := range levels {
		x.base[clients] = n
		n += clients * rowsOfClient
	}
	x.p.exec(`INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', md5('run' || n)::uuid))).* FROM runs r, generate_series(0, $2 - 1) n WHERE r.id = $1`, l.Ref.Run, n)
}

// scripts makes the two scripts from what the server sent for a real transition, the query files, and what it wrote.
func (x *bare) scripts(ctx context.Context, l db.Claimed, text string) {
	p := x.p
	id := l.Ref.Run.String()
	template := func(query string) string {
		var text string
		p.must(p.root.QueryRow(ctx, query, l.Ref.Run).Scan(&text), "read what was written")
		return strings.ReplaceAll("["+text+"]", id, markRun)
	}
	number := func(column string) string { return `'` + column + `', ` + markVersion }
	runs := template(`SELECT (to_jsonb(r) || jsonb_build_object('limits', NULL, ` + number("version") + `))::text FROM runs r WHERE id = $1`)
	events := template(`SELECT (to_jsonb(e) - 'id' - 'xid' || jsonb_build_object(` + number("seq") + `, 'event_id', 'bench/` + markVersion + `'))::text FROM run_events e WHERE run_id = $1 ORDER BY seq DESC LIMIT 1`)
	keys := template(`SELECT (to_jsonb(k) - 'created_at' || jsonb_build_object('key', 'bench-key-` + markVersion + `', 'run_id', $1::uuid))::text FROM idempotency_keys k WHERE scope LIKE 'run:' || $1::text || ':%'`)

	given := "arg AS MATERIALIZED (SELECT " + x.expression(runs) + " AS runs, " + x.expression(events) + " AS run_events, " + x.expression(keys) + " AS idempotency_keys, " +
		"json_build_array(json_build_object('id', q.id, 'tenant_id', '" + l.Ref.Tenant.String() + "', 'version', :v - 1)) AS befores " +
		"FROM (SELECT md5('run' || :n::text)::uuid::text AS id) q)"
	text = strings.Replace(bareOfComments(text), "WITH ", "WITH "+given+", ", 1)
	text = argument.ReplaceAllString(text, "json_populate_recordset(NULL::$1, (SELECT arg.$1 FROM arg))")
	text = keyArgument.ReplaceAllString(text, "json_to_recordset((SELECT arg.idempotency_keys FROM arg)) AS k")
	text = wasArgument.ReplaceAllString(text, "json_to_recordset((SELECT arg.befores FROM arg)) AS b")
	if left := regexp.MustCompile(`\$[0-9]+`).FindString(text); left != "" {
		p.b.Fatalf("bench: %s is an argument of another kind:\n%s", left, text)
	}

	head := "\\set i :i + 1\n\\set n :base + :client_id * " + strconv.Itoa(rowsOfClient) + " + :i % " + strconv.Itoa(rowsOfClient) + "\n" +
		"\\set v :first + 1 + :i / " + strconv.Itoa(rowsOfClient) + "\n"
	x.write = x.file("write.sql", head+text+";\n")
	x.whole = x.file("whole.sql", head+x.reads()+text+";\n")
}

// reads are the statements that the server sends before the write: whose credential is it, and the run.
func (x *bare) reads() string {
	p := x.p
	values := map[string][]string{
		"GetWorkerCredentials": {"@hashes", "ARRAY[:hash::bytea]"},
		"LoadRuns":             {"@ids", "ARRAY[md5('run' || :n::text)::uuid]"},
	}
	x.variables = append(x.variables, fmt.Sprintf(`hash=\x%x`, db.HashToken(p.secret)))
	var all strings.Builder
	for _, name := range []string{"GetWorkerCredentials", "LoadRuns"} {
		text, err := queryText(name)
		p.must(err, "read the statement")
		text = strings.ReplaceAll(text, "sqlc.embed(runs)", "runs.*")
		text = strings.NewReplacer(values[name]...).Replace(text)
		all.WriteString(text + ";\n")
	}
	return all.String()
}

// expression builds the argument from a template by concatenation; its constant parts become variables of pgbench,
// which would look for variables inside of text.
func (x *bare) expression(template string) string {
	var parts []string
	constant := func(s string) {
		if s != "" {
			name := fmt.Sprintf("part%d", len(x.variables))
			x.variables = append(x.variables, name+"="+s)
			parts = append(parts, ":"+name+"::text")
		}
	}
	for rest := template; rest != ""; {
		r, v := strings.Index(rest, markRun), strings.Index(rest, markVersion)
		switch {
		case r < 0 && v < 0:
			constant(rest)
			rest = ""
		case v < 0 || (r >= 0 && r < v):
			constant(rest[:r])
			parts, rest = append(parts, "q.id"), rest[r+len(markRun):]
		default:
			constant(rest[:v])
			parts, rest = append(parts, ":v::text"), rest[v+len(markVersion):]
		}
	}
	return "(" + strings.Join(parts, " || ") + ")::json"
}

func (x *bare) file(name, text string) string {
	path := filepath.Join(x.p.b.TempDir(), name)
	x.p.must(os.WriteFile(path, []byte(text), 0o600), "write a script")
	return path
}

var tps = regexp.MustCompile(`tps = ([0-9.]+) \(without initial connection time\)`)

// rate runs a script and returns transactions per second, as pgbench counts them.
func (x *bare) rate(script string, clients, transactions int) float64 {
	p := x.p
	p.b.Helper()
	args := []string{"--no-vacuum", "--protocol=prepared", "--client=" + strconv.Itoa(clients), "--jobs=" + strconv.Itoa(min(clients, 2)),
		"--transactions=" + strconv.Itoa(transactions), "--file=" + script, "--define=i=" + strconv.Itoa(x.done[clients]-1),
		"--define=base=" + strconv.Itoa(x.base[clients]), "--define=first=" + strconv.FormatInt(x.first, 10)}
	for _, v := range x.variables {
		args = append(args, "--define="+v)
	}
	x.done[clients] += transactions
	cmd := exec.CommandContext(p.b.Context(), "pgbench", append(args, p.engine)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.b.Fatalf("bench: pgbench: %v\n%s", err, out)
	}
	found := tps.FindSubmatch(out)
	if found == nil {
		p.b.Fatalf("bench: pgbench said no rate:\n%s", out)
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	p.must(err, "read the rate")
	return n
}

// written is how many transitions the scripts have really made, so that a script which changes nothing is noticed.
func (x *bare) written(ctx context.Context) (n int) {
	x.p.must(x.p.root.QueryRow(ctx, `SELECT count(*) FROM run_events WHERE event_id LIKE 'bench/%'`).Scan(&n), "count")
	return n
}
