package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// minMajor is the oldest Postgres that the product supports.
const minMajor = 15

// binaries are the two programs of one Postgres installation.
type binaries struct {
	initdb, postgres string
	version          string
}

func (b binaries) major() string {
	major, _, _ := strings.Cut(b.version, ".")
	return major
}

// findBinaries takes the newest installation among PATH and the places where distributions keep them (Debian keeps
// them outside PATH, one folder per major version).
func findBinaries() (binaries, error) {
	var folders []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"} {
		found, _ := filepath.Glob(pattern)
		folders = append(folders, found...)
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	var best binaries
	for _, dir := range folders {
		b := binaries{initdb: filepath.Join(dir, "initdb"), postgres: filepath.Join(dir, "postgres")}
		if _, err := os.Stat(b.initdb); err != nil {
			continue
		}
		version, err := versionOf(b.postgres)
		if err != nil {
			continue
		}
		b.version = version
		if best.version == "" || number(b.major()) > number(best.major()) {
			best = b
		}
	}
	if number(best.major()) < minMajor {
		found := "none was found"
		if best.version != "" {
			found = "the newest found is " + best.version
		}
		return binaries{}, fmt.Errorf("postgres was not started: its server programs, version %d or newer, are needed and %s; install them (on Debian: apt-get install postgresql) or run scripts/setup", minMajor, found)
	}
	return best, nil
}

var versionPattern = regexp.MustCompile(`\d+(\.\d+)?`)

func versionOf(postgres string) (string, error) {
	out, err := exec.Command(postgres, "--version").Output()
	if err != nil {
		return "", err
	}
	return versionPattern.FindString(string(out)), nil
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// identity is the operating-system user that Postgres runs as.
type identity struct {
	name   string
	uid    uint32
	gid    uint32
	groups []uint32
	drop   bool // this process is root and gives its rights up for the child
}

// account chooses: root drops to postgres or nobody (Postgres refuses root), everybody else stays who they are.
func account() (identity, error) {
	if os.Geteuid() != 0 {
		return identity{name: currentUser(), uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		id := identity{name: name, uid: uint32(number(u.Uid)), gid: uint32(number(u.Gid)), drop: true}
		ids, _ := u.GroupIds()
		for _, g := range ids {
			id.groups = append(id.groups, uint32(number(g)))
		}
		return id, nil
	}
	return identity{}, errors.New("postgres was not started: it refuses to run as root and this system has neither a user postgres nor nobody; run as another user")
}

func currentUser() string {
	u, err := user.Current()
	if err != nil {
		return strconv.Itoa(os.Geteuid())
	}
	return u.Username
}

func (id identity) credential() *syscall.Credential {
	if !id.drop {
		return nil
	}
	return &syscall.Credential{Uid: id.uid, Gid: id.gid, Groups: id.groups}
}

func (id identity) own(path string) error {
	if !id.drop {
		return nil
	}
	if err := os.Chown(path, int(id.uid), int(id.gid)); err != nil {
		return fmt.Errorf("give %s to the user %s: %w", path, id.name, err)
	}
	return nil
}

func (id identity) writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return id.own(path)
}

// runAs runs a program to its end as the given user and answers its joined output. The environment is clean, so that
// no PG… variable of the person who started us reaches it.
func runAs(ctx context.Context, who identity, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = cleanEnvironment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential()}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "LC_") || name == "LANG" || strings.HasPrefix(name, "SIGNALBOX_")
	})
}

// prepareFolders makes the folders, gives them to the server's user, and proves that this user can get there: a home
// folder with mode 0700 above is the usual reason why not, and Postgres' own message does not name it.
func (s *Server) prepareFolders(who identity) error {
	socket := filepath.Join(s.socketDir(), ".s.PGSQL.5432.lock")
	if len(socket) > maxSocketPath {
		return fmt.Errorf("postgres was not started: the folder %s is too long by %d bytes for a unix socket in it; choose a shorter one",
			s.dir, len(socket)-maxSocketPath)
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fmt.Errorf("make the postgres folder: %w", err)
	}
	if err := who.own(s.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.socketDir(), 0o700); err != nil {
		return fmt.Errorf("make the socket folder: %w", err)
	}
	if err := who.own(s.socketDir()); err != nil {
		return err
	}
	if !who.drop {
		return nil
	}
	for dir := filepath.Dir(s.dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("look at %s: %w", dir, err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && !mayPass(st, who) {
			return fmt.Errorf("postgres was not started: it runs as the user %s, who may not pass through %s (mode %04o); choose a data folder elsewhere, or allow it with: chmod o+x %s",
				who.name, dir, info.Mode().Perm(), dir)
		}
		if dir == "/" {
			return nil
		}
	}
}

func mayPass(st *syscall.Stat_t, who identity) bool {
	switch {
	case st.Uid == who.uid:
		return st.Mode&0o100 != 0
	case st.Gid == who.gid || slices.Contains(who.groups, st.Gid):
		return st.Mode&0o010 != 0
	default:
		return st.Mode&0o001 != 0
	}
}
