// Package artifact owns stored content: blobs addressed by tenant and SHA-256
// in a bucket named by a URL (file:// today; whatever gocloud.dev/blob opens
// can follow). It refuses to trust a name: the key is computed here from the
// content, and content is verified on every read.
package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"

	"signalbox/internal/fault"
)

// Codes of faults.
const (
	CodeTooLarge = "ARTIFACT_TOO_LARGE"
	CodeDamaged  = "ARTIFACT_DAMAGED"
	CodeMissing  = "ARTIFACT_MISSING"
)

// inMemory is how much of an upload is kept in memory before it is spooled.
const inMemory = 1 << 20

// Store reads and writes blobs. It is safe for concurrent use.
type Store struct {
	bucket *blob.Bucket
	root   string // folder of a file:// bucket, to sync; else empty
}

// Blob says where content was stored.
type Blob struct {
	SHA256 string // lower-case hex
	Size   int64  // bytes
	Key    string // tenants/{tenant}/sha256/{hex}
}

// Open opens a bucket by URL, such as file:///var/lib/signalbox/artifacts.
// A file bucket's folder is made when it is missing.
func Open(ctx context.Context, address string) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("artifact store address: %w", err)
	}
	if u.Scheme != "file" {
		return nil, fmt.Errorf("artifact store address: scheme %q is not supported, use file://", u.Scheme)
	}
	if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, errors.New("artifact store address: want file:///an/absolute/folder without a query")
	}
	root := filepath.Clean(u.Path)
	bucket, err := fileblob.OpenBucket(root, &fileblob.Options{
		CreateDir: true, DirFileMode: 0o700,
		NoTempDir: true, // a rename must stay within one file system
		Metadata:  fileblob.MetadataDontWrite,
	})
	if err != nil {
		return nil, fmt.Errorf("open artifact store: %w", err)
	}
	return &Store{bucket: bucket, root: root}, ctx.Err()
}

// Close releases the bucket.
func (s *Store) Close() error { return s.bucket.Close() }

// Key is the address of content within the bucket. sum must be 64 lower-case
// hex digits; anything else is fault.NotFound.
func Key(tenant uuid.UUID, sum string) (string, error) {
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != sum || tenant == uuid.Nil {
		return "", fault.New(fault.NotFound, "No artifact has this address.")
	}
	return "tenants/" + tenant.String() + "/sha256/" + sum, nil
}

// Put stores what r yields, at most limit bytes, and returns its address once
// it is durable. More is fault.TooLarge and stores nothing. The same content
// twice is one blob for each tenant; nobody learns from an upload whether
// another tenant has it, because the upload always runs to its end.
func (s *Store) Put(ctx context.Context, tenant uuid.UUID, r io.Reader, limit int64) (Blob, error) {
	sp := &spool{sum: sha256.New()}
	defer sp.discard()
	n, err := io.Copy(sp, &contextReader{ctx, io.LimitReader(r, limit+1)})
	if err != nil {
		return Blob{}, fmt.Errorf("receive artifact: %w", err)
	}
	if n > limit {
		return Blob{}, fault.Newf(fault.TooLarge, "The artifact was not stored: it is larger than %d bytes.", limit).WithCode(CodeTooLarge)
	}
	b := Blob{SHA256: hex.EncodeToString(sp.sum.Sum(nil)), Size: n}
	if b.Key, err = Key(tenant, b.SHA256); err != nil {
		return Blob{}, err
	}
	content, err := sp.reader()
	if err != nil {
		return Blob{}, fmt.Errorf("receive artifact: %w", err)
	}
	// Always written, also over an equal blob: it replaces a damaged one.
	err = s.bucket.Upload(ctx, b.Key, content, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return Blob{}, fmt.Errorf("store artifact: %w", err)
	}
	if err := s.sync(b.Key); err != nil {
		return Blob{}, fmt.Errorf("store artifact: %w", err)
	}
	return b, nil
}

// sync makes a written file and its folder's entry durable: fileblob renames
// without it, and a row in the database must never outlive its content.
func (s *Store) sync(key string) error {
	file := filepath.Join(s.root, filepath.FromSlash(key))
	for _, name := range []string{file, filepath.Dir(file)} {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Get opens content for reading. The reader verifies: where the bytes are not
// those that were stored, Read ends with a fault.Internal of CodeDamaged
// instead of io.EOF. Content that is not there is fault.Gone.
func (s *Store) Get(ctx context.Context, tenant uuid.UUID, sum string) (io.ReadCloser, error) {
	key, err := Key(tenant, sum)
	if err != nil {
		return nil, err
	}
	r, err := s.bucket.NewReader(ctx, key, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fault.Wrap(fault.Gone, err, "The content of this artifact is no longer stored.").WithCode(CodeMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("open artifact: %w", err)
	}
	return &verified{r: r, sum: sha256.New(), want: sum}, nil
}

// GetKey is Get for a stored key, which must be one of this tenant's.
func (s *Store) GetKey(ctx context.Context, tenant uuid.UUID, key string) (io.ReadCloser, error) {
	sum, ok := strings.CutPrefix(key, "tenants/"+tenant.String()+"/sha256/")
	if !ok {
		return nil, fault.New(fault.NotFound, "No artifact has this address.")
	}
	return s.Get(ctx, tenant, sum)
}

// Read returns the whole content, verified, or fault.TooLarge beyond limit
// bytes.
func (s *Store) Read(ctx context.Context, tenant uuid.UUID, sum string, limit int64) ([]byte, error) {
	r, err := s.Get(ctx, tenant, sum)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// The verdict on the last byte comes with the end, so read for it.
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read artifact: %w", err)
	case int64(len(b)) > limit:
		return nil, fault.Newf(fault.TooLarge, "The artifact was not read: it is larger than %d bytes.", limit).WithCode(CodeTooLarge)
	}
	return b, nil
}

type verified struct {
	r    io.ReadCloser
	sum  hash.Hash
	want string
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF {
		got := hex.EncodeToString(v.sum.Sum(nil))
		if subtle.ConstantTimeCompare([]byte(got), []byte(v.want)) != 1 {
			return n, fault.Wrap(fault.Internal, fmt.Errorf("artifact %s reads as %s", v.want, got),
				"The stored artifact is damaged.").WithCode(CodeDamaged)
		}
	}
	return n, err
}

func (v *verified) Close() error { return v.r.Close() }

// spool keeps an upload in memory, and beyond inMemory bytes in a file that
// has no name any more, so that nothing is left behind.
type spool struct {
	sum  hash.Hash
	mem  bytes.Buffer
	file *os.File
}

func (s *spool) Write(p []byte) (int, error) {
	s.sum.Write(p)
	if s.file == nil && s.mem.Len()+len(p) <= inMemory {
		return s.mem.Write(p)
	}
	if s.file == nil {
		f, err := os.CreateTemp("", "signalbox-artifact-*")
		if err != nil {
			return 0, err
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil {
			return 0, err
		}
		if _, err := s.mem.WriteTo(f); err != nil {
			return 0, err
		}
	}
	return s.file.Write(p)
}

func (s *spool) reader() (io.Reader, error) {
	if s.file == nil {
		return bytes.NewReader(s.mem.Bytes()), nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}

func (s *spool) discard() {
	if s.file != nil {
		s.file.Close() //nolint:errcheck // the file has no name; its content is elsewhere by now
	}
}

// contextReader stops a copy when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
