// Package interleave runs a few sessions against one real Postgres in every order of their round trips: a gate between
// each session and the server holds every request until the explorer lets it through.
//
// It owns the order and nothing else: what the sessions do is the product's own code, without a hook in it. It refuses
// to guess when a session stands still: it waits for its next request, for its end, or for the server to say that it
// waits for a lock.
package interleave

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Gate is the way of one session to the server. Closed by default is nothing: without an explorer everything passes.
type Gate struct {
	dir, target string
	listener    net.Listener
	wg          sync.WaitGroup

	mu    sync.Mutex
	pass  func() // called before each request; nil lets everything through
	count int    // requests so far
	conns map[net.Conn]bool
}

const socketName = ".s.PGSQL.5432"

// NewGate opens a way to the server of the address, whatever role and database it names.
func NewGate(t testing.TB, address string) *Gate {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("interleave: %v", err)
	}
	// The path of a socket is short, so the folder is not the test's.
	dir, err := os.MkdirTemp("", "sb-gate-")
	if err != nil {
		t.Fatalf("interleave: %v", err)
	}
	g := &Gate{dir: dir, target: filepath.Join(u.Query().Get("host"), socketName), conns: map[net.Conn]bool{}}
	if g.listener, err = net.Listen("unix", filepath.Join(dir, socketName)); err != nil {
		t.Fatalf("interleave: %v", err)
	}
	g.wg.Go(g.accept)
	t.Cleanup(func() {
		_ = g.listener.Close()
		g.mu.Lock()
		for c := range g.conns {
			_ = c.Close()
		}
		g.mu.Unlock()
		g.wg.Wait()
		_ = os.RemoveAll(dir)
	})
	return g
}

// URL is the address through the gate.
func (g *Gate) URL(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("interleave: %v", err)
	}
	q := u.Query()
	q.Set("host", g.dir)
	u.RawQuery = q.Encode()
	return u.String()
}

// Requests is how many requests came so far, each of which waits for its answer: what is sent together counts as one.
func (g *Gate) Requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

func (g *Gate) set(pass func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass = pass
}

func (g *Gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.wg.Go(func() { g.serve(client) })
	}
}

func (g *Gate) serve(client net.Conn) {
	server, err := net.Dial("unix", g.target)
	if err != nil {
		_ = client.Close()
		return
	}
	g.mu.Lock()
	g.conns[client], g.conns[server] = true, true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.conns, client)
		delete(g.conns, server)
		g.mu.Unlock()
	}()
	g.wg.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	// Where the client goes away in the middle of a message, the server sees just that.
	_ = g.requests(server, client)
	_ = server.Close()
}

// requests carries what the client says to the server: the start of the connection as it is, then request by request.
func (g *Gate) requests(server io.Writer, client io.Reader) error {
	if err := message(server, client, 0); err != nil {
		return err
	}
	var request bytes.Buffer
	for {
		request.Reset()
		kind := byte(0)
		for kind != 'Q' && kind != 'S' && kind != 'p' && kind != 'X' {
			at := request.Len()
			if err := message(&request, client, 1); err != nil {
				return err
			}
			kind = request.Bytes()[at]
		}
		if kind == 'Q' || kind == 'S' {
			g.mu.Lock()
			pass := g.pass
			g.count++
			g.mu.Unlock()
			if pass != nil {
				pass()
			}
		}
		if _, err := server.Write(request.Bytes()); err != nil {
			return err
		}
	}
}

// message copies one message of Postgres's protocol: its type, where it has one, its length, and the rest.
func message(to io.Writer, from io.Reader, typed int) error {
	head := make([]byte, typed+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(head[typed:])) - 4
	if n < 0 || n > 1<<30 {
		return errors.New("a message without a length")
	}
	if _, err := to.Write(head); err != nil {
		return err
	}
	if m, err := io.CopyN(to, from, n); err != nil {
		return fmt.Errorf("after %d bytes: %w", m, err)
	}
	return nil
}
