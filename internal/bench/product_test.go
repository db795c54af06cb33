package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/artifact"
	"signalbox/internal/control"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/throwaway"
	"signalbox/internal/feed"
	"signalbox/internal/pgserver"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// product is the server as `signalbox serve` puts it together, on a cluster of its own that keeps its commits.
type product struct {
	b          *testing.B
	world      *drive.World
	data       dbtest.Database
	cluster    *throwaway.Cluster
	root       *pgxpool.Pool // the superuser
	engine     string        // address of the role that the server uses, for pgbench
	address    string
	worker     db.WorkerID
	boots      []uuid.UUID // each may hold a thousand leases
	secret     string      // of the worker
	token      string      // of the requester
	count      atomic.Int64
	claimLooks int64
	copied     int // rows that copyRun made
}

// sessionKey makes the cookies of the people that a bench signs in.
var sessionKey = bytes.Repeat([]byte("k"), 32)

// leaseTTL is long, so that no lease of a prepared run ends while others are measured.
const leaseTTL = time.Hour

// The worker has several boots because one may hold a thousand leases at most; the last one is for waiting claims.
const (
	boots        = 5
	leasesOfBoot = 1000
)

func start(b *testing.B) *product {
	ctx := b.Context()
	data, cluster := dbtest.NewCluster(b, throwaway.Options{Fsync: true, Settings: map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top", "max_wal_size": "4GB", "checkpoint_timeout": "30min", "track_activity_query_size": "32768",
	}})
	p := &product{b: b, data: data, cluster: cluster, engine: data.EngineURL}
	var err error
	p.root, err = pgxpool.New(ctx, cluster.Server().URL(pgserver.Superuser, data.Name))
	p.must(err, "connect as the superuser")
	b.Cleanup(p.root.Close)
	p.exec(`CREATE EXTENSION pg_stat_statements`)

	// As `signalbox serve` does it: garbage is collected seldom, and requests are logged as JSON, here into a file.
	debug.SetGCPercent(400)
	file, err := os.Create(filepath.Join(b.TempDir(), "server.log"))
	p.must(err, "make the log")
	b.Cleanup(func() { p.must(file.Close(), "close the log") })
	log := slog.New(slog.NewJSONHandler(file, nil))
	store, err := db.Open(ctx, db.Options{URL: data.EngineURL, AppURL: data.AppURL, MaxConns: 24, Timing: db.Timing{LeaseTTL: leaseTTL, BackoffScale: noWait}, Log: log})
	p.must(err, "open the store")
	b.Cleanup(store.Close)
	p.world = drive.New(b, data, drive.Options{Store: store})
	p.people(store)
	p.serve(store, log)
	return p
}

func (p *product) people(store *db.Store) {
	ctx := p.b.Context()
	p.secret, p.token = db.Mint(db.PrefixWorker), db.Mint(db.PrefixToken)
	c, err := store.CreateWorkerCredential(ctx, db.WorkerCredential{Tenant: p.world.Tenant, Name: "bench", Phases: run.Phases()}, p.secret)
	p.must(err, "make a worker's credential")
	id := db.WorkerID{ID: c.ID, Name: c.Name, Tenant: &p.world.Tenant, Phases: c.Phases}
	for range boots {
		boot, err := store.RegisterBoot(ctx, id, db.Boot{Name: c.Name, Version: "bench", Phases: c.Phases, Isolation: "bwrap", Capabilities: []string{"agent:default"}, MaxConcurrent: leasesOfBoot})
		p.must(err, "register the worker")
		p.boots = append(p.boots, boot)
	}
	p.worker = id
	now := time.Now()
	_, err = store.CreateToken(ctx, db.Token{Tenant: p.world.Tenant, User: p.world.Requester.ID, Name: "bench", Scopes: []string{"read", "tasks"}, AuthTime: now, ExpiresAt: now.Add(24 * time.Hour)}, p.token)
	p.must(err, "make a token")
}

func (p *product) serve(store *db.Store, log *slog.Logger) {
	artifacts, err := artifact.Open(p.b.Context(), "file://"+p.b.TempDir())
	p.must(err, "open the artifacts")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err, "listen")
	p.address = l.Addr().String()
	hub, loops := feed.New(store, log), control.Loops(store, control.Options{Silent: leaseTTL, Log: log})
	handler, err := handlers.New(handlers.Options{
		Store: store, Hub: hub, Artifacts: artifacts, PublicURL: "http://" + p.address, SessionKey: sessionKey, Log: log, Rates: handlers.Rates{Requests: -1, Logins: -1},
		Admit: func() {
			for _, l := range loops {
				if l.Name == "admission" {
					l.Wake()
				}
			}
		},
	})
	p.must(err, "make the handler")
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { hub.Run(ctx) })
	for _, l := range loops {
		wg.Go(func() { l.Run(ctx) })
	}
	wg.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.b.Errorf("bench: serve: %v", err)
		}
	})
	p.b.Cleanup(func() {
		handler.Drain()
		p.must(server.Close(), "stop the server")
		stop()
		wg.Wait()
		p.must(artifacts.Close(), "close the artifacts")
	})
}

func (p *product) must(err error, what string) {
	p.b.Helper()
	if err != nil {
		p.b.Fatalf("bench: %s: %v", what, err)
	}
}

func (p *product) exec(statement string, args ...any) {
	p.b.Helper()
	_, err := p.root.Exec(p.b.Context(), statement, args...)
	p.must(err, statement)
}

// hurried does what is not measured without waiting for the disk.
func (p *product) hurried(do func()) {
	p.exec(`ALTER SYSTEM SET synchronous_commit = off`)
	p.exec(`SELECT pg_reload_conf()`)
	do()
	p.exec(`ALTER SYSTEM RESET synchronous_commit`)
	p.exec(`SELECT pg_reload_conf()`)
}

// each calls do for every number below n, from eight goroutines.
func (p *product) each(n int, do func(i int) error) {
	p.b.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make(chan error, 8)
	for range 8 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := do(int(i - 1)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		p.must(err, "prepare")
	default:
	}
}

// noWait lets what is given back again and again be given out at once: how long a run waits is not measured here.
const noWait = 1e-12

// leased leases n runs to the worker: those given, which their holder releases first, and as many new ones as are
// missing. It is not measured.
func (p *product) leased(n int, have []db.Claimed) (all []db.Claimed) {
	p.b.Helper()
	ctx := p.b.Context()
	p.hurried(func() {
		p.each(len(have), func(i int) error {
			key := p.key()
			_, err := p.world.Store.Apply(ctx, have[i].Ref, db.Intent{Key: key, Hash: drive.Hash(key), By: run.Actor{Kind: run.Worker, ID: p.worker.ID.String()},
				Lease: &run.LeaseRef{ID: have[i].Lease.ID, Token: have[i].Lease.Token}, Worker: p.worker.ID, Command: run.Release{Reason: "drain"}})
			return err
		})
		p.each(n-len(have), func(int) error {
			_, err := p.world.Task(ctx, drive.Ordinary())
			return err
		})
		for len(all) < n {
			got, _, err := p.world.Store.Claim(ctx, db.ClaimRequest{ClaimID: p.key(), Worker: p.worker, Boot: p.boots[len(all)/(leasesOfBoot-100)], Phases: []run.Phase{run.PhaseExecute}, Max: min(n-len(all), 100)})
			p.must(err, "claim")
			if len(got) == 0 {
				p.b.Fatalf("bench: only %d of %d runs could be leased", len(all), n)
			}
			all = append(all, got...)
		}
	})
	return all
}

func (p *product) key() string { return fmt.Sprintf("bench-key-%d", p.count.Add(1)) }

// request is a POST as it goes over the wire, made before the clock starts.
func (p *product) request(path, bearer, key string, body any) []byte {
	p.b.Helper()
	raw, err := json.Marshal(body)
	p.must(err, "encode")
	return fmt.Appendf(nil, "POST /api/v1%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
		path, p.address, bearer, key, len(raw), raw)
}

// command is the transition that is measured: the holder of a lease says that it has started (LEASED → PREPARING).
func (p *product) command(c db.Claimed) []byte {
	return p.request("/runs/"+typeid.Format(typeid.Run, c.Ref.Run)+"/commands", p.secret, p.key(), wire.RunCommand{
		Command: wire.CmdStart, LeaseId: typeid.Format(typeid.Lease, c.Lease.ID), FencingToken: c.Lease.Token,
	})
}

// client is one connection that is kept. It does less than net/http's, as pgbench does less than pgx.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func (p *product) dial() (*client, error) {
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		return nil, err
	}
	return &client{conn, bufio.NewReader(conn)}, nil
}

// do sends a request and reads the whole answer; anything but the wanted status is an error.
func (c *client) do(request []byte, want int) ([]byte, error) {
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != want {
		return nil, fmt.Errorf("answered %s: %s", resp.Status, body)
	}
	return body, nil
}

// rate sends one command for each lease from a number of clients and returns acknowledged transitions per second.
func (p *product) rate(clients int, leases []db.Claimed) float64 {
	p.b.Helper()
	requests := make([][]byte, len(leases))
	for i, l := range leases {
		requests[i] = p.command(l)
	}
	conns := make([]*client, clients)
	for i := range conns {
		var err error
		conns[i], err = p.dial()
		p.must(err, "connect")
		defer conns[i].conn.Close()
	}
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	began := time.Now()
	for n, c := range conns {
		wg.Go(func() {
			for i := n; i < len(requests); i += clients {
				if _, err := c.do(requests[i], http.StatusOK); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	select {
	case err := <-errs:
		p.must(err, "post a command")
	default:
	}
	return float64(len(requests)) / took.Seconds()
}

// submitToLease is the time from sending a task to having the answer of a claim that was waiting.
func (p *product) submitToLease() time.Duration {
	waiting, err := p.dial()
	p.must(err, "connect")
	defer waiting.conn.Close()
	asking, err := p.dial()
	p.must(err, "connect")
	defer asking.conn.Close()
	claim := p.request("/workers/claims", p.secret, p.key(), wire.Claim{BootId: typeid.Format(typeid.Boot, p.boots[boots-1]), ClaimId: p.key(), Max: 1, Phases: []wire.Phase{wire.Execute}, WaitSeconds: 20})
	task := p.request("/tasks", p.token, p.key(), wire.TaskCreate{
		RepositoryId: typeid.Format(typeid.Repo, p.world.Repo), Title: "Latency", Goal: "Change one line.", Mode: wire.PrCreated, Risk: wire.LOW,
	})
	type answer struct {
		at   time.Time
		body []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		body, err := waiting.do(claim, http.StatusOK)
		got <- answer{time.Now(), body, err}
	}()
	p.awaitWaiter()
	began := time.Now()
	_, err = asking.do(task, http.StatusCreated)
	p.must(err, "submit a task")
	a := <-got
	p.must(a.err, "claim")
	var ack wire.ClaimAck
	p.must(json.Unmarshal(a.body, &ack), "read the claim")
	if len(ack.Assignments) != 1 {
		p.b.Fatalf("bench: the claim gave %d leases", len(ack.Assignments))
	}
	return a.at.Sub(began)
}

// awaitWaiter returns when the claim that was just sent has looked and found nothing; from then on the server's bell wakes it.
func (p *product) awaitWaiter() {
	p.b.Helper()
	before := p.claimLooks
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		p.must(p.root.QueryRow(p.b.Context(), `SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%name: Lanes %'`).Scan(&p.claimLooks), "look at the statements")
		if p.claimLooks > before {
			return
		}
	}
	p.b.Fatal("bench: the claim did not look for work within ten seconds")
}
