// Command river is the peer of `make bench`: how many empty jobs per second River works off on the cluster that it is
// given, in its own process, with the settings of its own benchmark. It is a module of its own, so that the product does
// not depend on River.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type job struct{}

func (job) Kind() string { return "empty" }

// worker does nothing; with durable set it completes its job in a transaction of its own, so that the completion is
// durable before the next one begins, as every acknowledged call of Signalbox is.
type worker struct {
	river.WorkerDefaults[job]
	pool    *pgxpool.Pool
	durable bool
	done    atomic.Int64
}

func (w *worker) Work(ctx context.Context, j *river.Job[job]) error {
	defer w.done.Add(1)
	if !w.durable {
		return nil
	}
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes the database's address, the number of jobs, and best or durable; it prints jobs per second.
func run() error {
	if len(os.Args) != 4 {
		return fmt.Errorf("usage: river ADDRESS JOBS best|durable")
	}
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig(os.Args[1])
	if err != nil {
		return err
	}
	cfg.MaxConns = 24
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	w := &worker{pool: pool, durable: os.Args[3] == "durable"}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	most := 2000
	if w.durable {
		most = 64
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: most, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond}}, Workers: workers,
	})
	if err != nil {
		return err
	}
	many := make([]river.InsertManyParams, n)
	for i := range many {
		many[i] = river.InsertManyParams{Args: job{}}
	}
	if _, err := client.InsertManyFast(ctx, many); err != nil {
		return err
	}
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return err
	}
	// Counted in the table, so that a job counts when its completion is durable.
	for left := 1; left > 0; time.Sleep(20 * time.Millisecond) {
		if int(w.done.Load()) < n {
			continue
		}
		if err := pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state <> 'completed'`).Scan(&left); err != nil {
			return err
		}
	}
	took := time.Since(began)
	if err := client.Stop(ctx); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, `TRUNCATE river_job`); err != nil {
		return err
	}
	fmt.Printf("%.0f\n", float64(n)/took.Seconds())
	return nil
}
