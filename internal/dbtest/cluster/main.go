// Command cluster starts one throw-away Postgres cluster (fsync off), exports its address as SIGNALBOX_TEST_CLUSTER,
// runs the given command and removes the cluster, however the command ends. Its exit code is the command's.
//
// It is for `make test`: all packages share the cluster, and each test gets a database of its own from dbtest.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"signalbox/internal/dbtest/throwaway"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: cluster COMMAND [ARGUMENT …]")
		os.Exit(2)
	}
	code, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func run(ctx context.Context, command []string) (code int, err error) {
	// Signals are caught before there is anything to clean up. An interrupt at a terminal reaches the command as well,
	// which then ends; a termination is handed on.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)

	cluster, err := throwaway.Start(ctx, throwaway.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cluster.Remove(ctx)) }()

	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), throwaway.Variable+"="+cluster.URL())
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", command[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if sig != os.Interrupt {
				_ = cmd.Process.Signal(sig)
			}
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return max(exit.ExitCode(), 1), nil
			}
			return 0, err
		}
	}
}
