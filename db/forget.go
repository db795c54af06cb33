package db

import (
	"context"
	"time"
)

// keyMemory is how long the answer to a key is kept: far longer than anybody repeats a request for.
const keyMemory = 7 * 24 * time.Hour

// bootMemory is how long a boot that ended is kept, unless it is its worker's last one.
const bootMemory = 30 * 24 * time.Hour

// ForgetKeys deletes answers of idempotency keys that nobody repeats any more, at most so many, and returns how many.
// A request that is repeated later still is a new one.
func (s *Store) ForgetKeys(ctx context.Context, limit int) (int, error) {
	n, err := s.q.ForgetKeys(ctx, s.pool, keyMemory.Seconds(), int32(limit))
	return int(n), wrap("delete old idempotency keys", err)
}

// ForgetBoots deletes boots of workers that ended long ago and that nothing refers to, at most so many, and returns how many.
func (s *Store) ForgetBoots(ctx context.Context, limit int) (int, error) {
	n, err := s.q.ForgetBoots(ctx, s.pool, bootMemory.Seconds(), int32(limit))
	return int(n), wrap("delete old boots", err)
}
