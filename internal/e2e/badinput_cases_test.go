package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// agentCases are agents that behave badly.
func agentCases() []badCase {
	line := func(n int) func(*testing.T, *rig.Rig, *rig.Repository, *wire.Run) {
		return func(t *testing.T, r *rig.Rig, _ *rig.Repository, got *wire.Run) {
			longest := 0
			for _, log := range r.Artifacts(got.Id, "log") {
				for l := range strings.Lines(log) {
					longest = max(longest, len(l))
				}
			}
			if longest < n {
				t.Errorf("the longest line kept has %d bytes, want %d", longest, n)
			}
		}
	}
	return []badCase{
		{name: "the agent exits 1", acts: []rig.Act{{Do: "say", New: "I cannot do this."}, {Do: "exit", N: 1}},
			state: failed, category: "TOOL_FAILED", code: "AGENT_EXIT_NONZERO", says: "exit code 1", kept: []string{"attempt_failure", "log"}},
		{name: "the agent says that all is well and exits 3", acts: []rig.Act{good(), {Do: "result", New: "All is well."}, {Do: "exit", N: 3}},
			state: failed, category: "TOOL_FAILED", code: "AGENT_EXIT_NONZERO", says: "^The agent ended with exit code 3. Its own words: All is well.$", kept: []string{"attempt_failure", "evidence"}},
		{name: "the agent kills itself", acts: []rig.Act{sh(`kill -9 $PPID`), {Do: "hang"}},
			state: failed, category: "TOOL_FAILED", code: "AGENT_EXIT_NONZERO", says: "signal|137", kept: []string{"attempt_failure"}},
		{name: "the agent hangs", acts: []rig.Act{{Do: "append", File: "greeting.txt", New: "half\n"}, {Do: "hang"}}, task: profile("impatient"),
			state: failed, category: "TOOL_FAILED", code: "AGENT_TIMEOUT", says: "used up its time", kept: []string{"attempt_failure", "evidence"}},
		{name: "the agent hangs and ignores every polite signal", acts: []rig.Act{{Do: "ignore_term"}, {Do: "hang"}}, task: profile("impatient"),
			state: failed, category: "TOOL_FAILED", code: "AGENT_TIMEOUT", says: "used up its time", kept: []string{"attempt_failure"}},
		{name: "the agent falls silent", acts: []rig.Act{{Do: "say", New: "One moment."}, {Do: "hang"}}, task: profile("loud"),
			state: failed, category: "TOOL_FAILED", code: "AGENT_TIMEOUT", says: "silent", kept: []string{"attempt_failure"}},
		{name: "the agent writes outside its workspace", acts: []rig.Act{
			{Do: "outside", File: "/etc/signalbox-was-here"}, {Do: "outside", File: "/usr/bin/ls"}, {Do: "outside", File: "/opt/testagent"}, {Do: "outside", File: "/opt/signals/forged"},
			{Do: "outside", File: "/proc/sys/kernel/hostname"}, good(),
		}, state: waits, look: func(t *testing.T, r *rig.Rig, _ *rig.Repository, got *wire.Run) {
			answer, err := r.API().ListRunStepsWithResponse(t.Context(), got.Id, nil)
			if err != nil || answer.JSON200 == nil {
				t.Fatalf("read the steps: %v", err)
			}
			refused := 0
			for _, s := range answer.JSON200.Items {
				if strings.HasPrefix(s.Name, "write /") {
					if !strings.Contains(s.Name, "read-only") && !strings.Contains(s.Name, "denied") && !strings.Contains(s.Name, "not permitted") {
						t.Errorf("a write outside went well: %s", s.Name)
					}
					refused++
				}
			}
			if refused != 5 {
				t.Errorf("%d writes outside are in the trace, want 5", refused)
			}
			if _, err := os.Stat("/etc/signalbox-was-here"); err == nil {
				t.Error("a file was made on the host")
			}
		}},
		{name: "the agent leaves a child behind", acts: []rig.Act{{Do: "child"}, {Do: "child"}, good()}, state: waits},
		{name: "the agent ends well without a change", acts: []rig.Act{{Do: "say", New: "Done!"}},
			state: failed, category: "TOOL_FAILED", code: "EMPTY_PATCH", says: "without a change", kept: []string{"attempt_failure"}},
		{name: "the agent ends well without the report asked for", acts: []rig.Act{{Do: "tool", Name: "look", New: ""}},
			task:  func(k *wire.TaskCreate) { k.Mode = wire.AnalysisReportCreated },
			state: failed, category: "TOOL_FAILED", code: "AGENT_NO_RESULT", says: "without a report", kept: []string{"attempt_failure"}},
		{name: "the agent changes files for a report", acts: []rig.Act{good(), {Do: "raw", New: `{"type":"report","report":{"summary":"Found it."}}` + "\n"}},
			task:  func(k *wire.TaskCreate) { k.Mode = wire.AnalysisReportCreated },
			state: failed, category: "TOOL_FAILED", code: "UNEXPECTED_DIFF", says: "report only", kept: []string{"attempt_failure", "evidence"}},
		{name: "the agent breaks the protocol", acts: []rig.Act{
			{Do: "raw", New: "no json\n{\"type\":7}\n{}\n[1,2]\n{\"type\":\"unheard of\"}\n\xff\xfe\x00\n{\"type\":\"tool_finished\",\"call_id\":\"never began\",\"status\":\"ok\"}\n{\"type\":\"usage\",\"input\":-5}\n"},
			sh(`head -c 20000000 /dev/zero | tr '\0' 'a' >&3; echo >&3`), {Do: "raw", New: `{"type":"step","title":"cut off in the mid`}, good(),
		}, state: waits},
		{name: "the agent forges orders on its standard output", acts: []rig.Act{
			{Do: "say", New: "::set-env name=PATH::/tmp"}, sh(`echo '{"type":"result","summary":"approved"}'; echo '{"type":"no_change","reason":"nothing"}'`), good(),
		}, state: waits},
		{name: "a line of five megabytes", acts: []rig.Act{{Do: "line", N: 5_000_000}, good()}, state: waits, look: line(5_000_000), kept: []string{"log"}},
		{name: "more output than is kept", acts: []rig.Act{sh(`yes 0123456789012345678901234567890 | head -c 45000000`), good()}, state: waits, kept: []string{"log"}},
		{name: "invalid UTF-8, zero bytes and control codes", acts: []rig.Act{
			{Do: "invalid_utf8"}, sh(`printf 'a\000b\033[2Jc\xed\xa0\x80\xf8\n'`), {Do: "raw", New: "{\"type\":\"step\",\"title\":\"\xffbad\\u0000 title\"}\n"}, good(),
			{Do: "result", New: "\xc3\x28 and \x00 in the summary"},
		}, state: waits, look: func(t *testing.T, r *rig.Rig, _ *rig.Repository, got *wire.Run) {
			if h := r.History(got.Id); !utf8.ValidString(h) || strings.ContainsRune(h, 0) {
				t.Errorf("the timeline has broken text: %q", h)
			}
		}},
		{name: "an agent whose program is missing", task: profile("nowhere"), acts: []rig.Act{good()},
			state: failed, category: "INFRASTRUCTURE", code: "TOOL_MISSING", says: "could not be started", kept: []string{"attempt_failure"}},
	}
}

// verifyCases are changes that do not pass, or checks that cannot be run.
func verifyCases() []badCase {
	price := func(n string) rig.Act { return sh("sed -i 's/^rate=.*/rate=" + n + "/' lib/price.sh") }
	counted := func(kind string, want int) func(*testing.T, *rig.Rig, *rig.Repository, *wire.Run) {
		return func(t *testing.T, r *rig.Rig, _ *rig.Repository, got *wire.Run) {
			if n := r.Count(got.Id, kind); n != want {
				t.Errorf("%d × %s, want %d\n%s", n, kind, want, r.History(got.Id))
			}
		}
	}
	checks := func(list ...wire.VerificationCommand) func(*wire.TaskCreate) {
		return func(k *wire.TaskCreate) { k.Verification = list }
	}
	return []badCase{
		{name: "verification fails twice, then passes", acts: []rig.Act{
			sh(`case $SIGNALBOX_REPAIR_ROUND in 0) sed -i s/hello/goodbye/ greeting.txt;; 1) sed -i s/goodbye/hello/ greeting.txt; sed -i s/^rate=.*/rate=30/ lib/price.sh;; *) sed -i s/^rate=.*/rate=20/ lib/price.sh;; esac`),
		}, state: waits, kept: []string{"verification_report"}, look: counted("verification_failed_retryable", 2)},
		{name: "verification never passes", acts: []rig.Act{sh(`w=$(echo $SIGNALBOX_REPAIR_ROUND | tr 0-9 a-j); printf 'echo this is the failure %s; exit 1\n' $w > lib/price.sh`)},
			state: failed, category: "VERIFICATION_FAILED", code: "VERIFIER_FAILED", kept: []string{"verification_report", "patch"}, look: counted("attempt_exhausted", 1)},
		{name: "the same failure twice ends the attempt early", acts: []rig.Act{price("77")},
			state: failed, category: "VERIFICATION_FAILED", code: "VERIFIER_FAILED", kept: []string{"verification_report"},
			// One repair round of two in each of the two attempts.
			look: counted("verification_failed_retryable", 2)},
		{name: "a check that hangs", acts: []rig.Act{good()}, task: checks(wire.VerificationCommand{Name: "slow", Argv: []string{"sh", "-c", "grep -q rate=19 lib/price.sh || sleep 1000"}, TimeoutSeconds: 1}),
			state: failed, category: "VERIFICATION_FAILED", code: "VERIFIER_FAILED", kept: []string{"verification_report"}},
		{name: "a check whose program is missing", acts: []rig.Act{good()}, task: checks(wire.VerificationCommand{Name: "absent", Argv: []string{"no-such-program-here"}}),
			state: failed, category: "INFRASTRUCTURE", code: "TOOL_MISSING", says: "no-such-program-here|absent", kept: []string{"attempt_failure"}},
		{name: "a check that leaves a child behind and floods", acts: []rig.Act{good()},
			task:  checks(wire.VerificationCommand{Name: "daemon", Argv: []string{"sh", "-c", "(trap '' TERM HUP; setsid sleep 1000) & yes | head -c 3000000; exit 0"}}),
			state: waits, kept: []string{"verification_report"}},
		{name: "a change that deletes everything", acts: []rig.Act{sh("rm -rf ./* ./.[a-z]*")},
			state: failed, category: "VERIFICATION_FAILED", code: "VERIFIER_FAILED", kept: []string{"patch", "verification_report"}},
	}
}

// patchCases are results that may not be published as they are.
func patchCases() []badCase {
	withPatch := []string{"patch", "verification_report", "judge_report"}
	// The one change that the run would publish.
	patchSays := func(has, lacks string) func(*testing.T, *rig.Rig, *rig.Repository, *wire.Run) {
		return func(t *testing.T, r *rig.Rig, _ *rig.Repository, got *wire.Run) {
			all := r.Artifacts(got.Id, "patch")
			if len(all) == 0 {
				t.Fatal("no patch is stored")
			}
			last := all[len(all)-1]
			if !strings.Contains(last, has) || lacks != "" && strings.Contains(last, lacks) {
				t.Errorf("the patch has to have %q and not %q:\n%s", has, lacks, last[:min(len(last), 2000)])
			}
		}
	}
	return []badCase{
		{name: "a secret in the patch", acts: []rig.Act{good(), sh(`printf 'aws_access_key_id = AKIA%s\naws_secret_access_key = %s%s\n' Z7Q4M2X5T6R3VWYB wJalrXUtnFEMI/K7MDENG/ bPxRfiCYzQ8kT3vN6w > settings.ini; printf -- '-----BEGIN RSA %s KEY-----\nMIIEowIBAAKCAQEAxyz0aZbYcXdWeVfUgThSiRjQkPlOmNnMoLpKqJrIsHtGuFvE\n-----END RSA %s KEY-----\n' PRIVATE PRIVATE > id_rsa`)},
			state: failed, category: "POLICY_DENIED", code: "SECRET_FOUND", says: "secret", kept: withPatch},
		{name: "a secret that is taken out when asked", acts: []rig.Act{good(),
			when("first", sh(`printf -- '-----BEGIN RSA %s KEY-----\nMIIEowIBAAKCAQEAxyz0aZbYcXdWeVfUgThSiRjQkPlOmNnMoLpKqJrIsHtGuFvE\n-----END RSA %s KEY-----\n' PRIVATE PRIVATE > id_rsa`)),
			when("judge", rig.Act{Do: "delete", File: "id_rsa"})},
			state: waits, look: patchSays("lib/price.sh", "id_rsa")},
		{name: "a forbidden path", acts: []rig.Act{good(), {Do: "append", File: "greeting.txt", New: "x\n"}}, task: func(k *wire.TaskCreate) { k.Forbidden = []string{"GREETING.*"} },
			state: failed, category: "POLICY_DENIED", code: "FORBIDDEN_PATH", says: "greeting.txt", kept: withPatch},
		{name: "a change out of scope", acts: []rig.Act{good(), {Do: "append", File: "greeting.txt", New: "x\n"}}, task: func(k *wire.TaskCreate) { k.Scope = []string{"lib/**"} },
			state: failed, says: "greeting.txt.*scope", category: "POLICY_DENIED", code: "FORBIDDEN_PATH", kept: withPatch},
		{name: "binary files", acts: []rig.Act{good(), sh(`head -c 3000 /dev/urandom > logo.png`)},
			state: failed, category: "POLICY_DENIED", code: "FORBIDDEN_PATH", says: "logo.png", kept: withPatch},
		{name: "a patch of too many lines", acts: []rig.Act{good(), sh(`seq 1 9000 > long.txt`)},
			state: failed, category: "JUDGE_REJECTED", code: "JUDGE_REJECTED", says: "9002 changed lines; at most 5000", kept: withPatch},
		{name: "a patch of too many bytes", acts: []rig.Act{good(), sh(`seq 1 900000 > huge.txt`)},
			state: failed, category: "TOOL_FAILED", code: "PATCH_TOO_LARGE", says: "bytes; the limit is 2097152", kept: []string{"patch"}},
		{name: "a patch of very many bytes", acts: []rig.Act{good(), sh(`yes 012345678901234567890123456789 | head -c 80000000 > huge.txt`)},
			state: failed, category: "TOOL_FAILED", code: "PATCH_TOO_LARGE", says: "larger than", kept: []string{"attempt_failure"}},
		{name: "a file too large to read", acts: []rig.Act{good(), sh(`truncate -s 3G sparse || exit 0`)},
			state: failed, category: "TOOL_FAILED", code: "PATCH_TOO_LARGE", says: "larger than", kept: []string{"attempt_failure"}},
		{name: "a symbolic link out of the tree", acts: []rig.Act{good(), sh(`ln -sfn /etc/passwd users; ln -sfn ../../../../etc d`)},
			state: failed, category: "POLICY_DENIED", code: "FORBIDDEN_PATH", says: "users", kept: withPatch},
		{name: "a folder that became a link to the host", acts: []rig.Act{sh(`cp lib/price.sh /tmp/p; rm -rf lib; ln -s /etc lib; sed -i 's/^\. .*/rate=20/' check.sh`)},
			state: failed, look: func(t *testing.T, r *rig.Rig, _ *rig.Repository, got *wire.Run) {
				for _, p := range r.Artifacts(got.Id, "patch") {
					if strings.Contains(p, "root:") {
						t.Error("the host's files are in the patch")
					}
				}
			}, category: "VERIFICATION_FAILED", code: "VERIFIER_FAILED"},
		{name: "pipes, sockets and odd names", acts: []rig.Act{good(), sh(`mkfifo pipe; mkdir -p "a
b" 'c:d' 'NUL' 'e\f'; echo 1 > "a
b/x"; echo 2 > 'NUL/y'; echo 3 > 'e\f/z'; printf 4 > "$(printf 'bad\377name')"; mkdir -p deep/$(seq -s/ 1 60); echo 5 > deep/$(seq -s/ 1 60)/f`)},
			state: failed, category: "TOOL_FAILED", code: "PATCH_INVALID", says: "name|path", kept: []string{"patch"}},
		{name: "the workspace's .git is hostile", acts: []rig.Act{good(), sh(hostileGit)}, state: waits, says: "gitattributes|protected", look: patchSays("lib/price.sh", "hooks/")},
		{name: "a nested .git with hooks", acts: []rig.Act{good(), sh(`mkdir -p sub/.git/hooks sub/.GIT/hooks vendor/git~1; echo 'x' > sub/.git/hooks/pre-commit; echo y > sub/.GIT/hooks/x; echo z > sub/file; echo w > vendor/git~1/config`)},
			state: waits, look: patchSays("sub/file", "hooks/")},
	}
}

// hostileGit turns the workspace's own .git, and files that git reads, against whoever runs git on it.
const hostileGit = `
c='touch CANARY'
git config core.fsmonitor "$c" ; git config core.hooksPath .git/hooks; git config core.sshCommand "$c"; git config diff.external "$c"; git config core.pager "$c"
git config filter.evil.clean "$c"; git config filter.evil.smudge "$c"; git config diff.evil.textconv "$c"; git config merge.evil.driver "$c"; git config core.editor "$c"
git config include.path /etc/passwd; git config alias.add "!$c"; git config core.worktree /; git config uploadpack.packObjectsHook "$c"; git config core.alternateRefsCommand "$c"
mkdir -p .git/hooks .git/objects/info; for h in pre-commit post-checkout post-index-change reference-transaction fsmonitor-watchman pre-push; do printf '#!/bin/sh\n%s\n' "$c" > .git/hooks/$h; chmod +x .git/hooks/$h; done
echo /etc > .git/objects/info/alternates; printf '* filter=evil diff=evil merge=evil\n' > .gitattributes; printf '* filter=evil\n' > .git/info/attributes
printf '[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% CANARY\n\tupdate = !touch CANARY\n' > .gitmodules
exit 0`

// repositoryCases are repositories that cannot be had, or that turn against whoever checks them out.
func repositoryCases() []badCase {
	// elsewhere registers a repository on another forge.
	elsewhere := func(url string) func(*rig.Rig, string) *rig.Repository {
		return func(r *rig.Rig, name string) *rig.Repository {
			repo := r.Repository(name, rig.Shop())
			forge := typeid.New()
			for _, q := range []string{
				`INSERT INTO forges (id, tenant_id, name, kind, base_url) VALUES ($1, $2, 'other than ' || $3::text, 'gitea', 'https://example.test')`,
				`UPDATE repositories SET forge_id = $1, clone_url = $4 WHERE tenant_id = $2 AND name = $3::text`,
			} {
				args := []any{forge, db.DefaultTenant, name, url}
				if _, err := r.Owner.Exec(r.T.Context(), q, args[:strings.Count(q, "$")]...); err != nil {
					r.T.Fatal(err)
				}
			}
			return repo
		}
	}
	review := func(k *wire.TaskCreate) { k.Mode = wire.PatchReadyForReview }
	return []badCase{
		{name: "the remote does not answer", acts: []rig.Act{good()}, repo: elsewhere("https://git.invalid/acme/shop.git"), task: review,
			state: failed, category: "INFRASTRUCTURE", code: "GIT_CLONE_FAILED_TRANSIENT", says: "did not answer|not be fetched", kept: []string{"attempt_failure"}},
		{name: "the remote is an address inside", acts: []rig.Act{good()}, repo: elsewhere("https://127.0.0.1:1/acme/shop.git"), task: review,
			state: failed, category: "REPOSITORY_ACCESS", code: "REPOSITORY_NOT_FOUND", says: "may not contact", kept: []string{"attempt_failure"}},
		{name: "the remote runs a command", acts: []rig.Act{good()}, repo: elsewhere("ext::sh -c touch% /tmp/canary"), task: review,
			state: failed, category: "REPOSITORY_ACCESS", code: "REPOSITORY_NOT_FOUND", kept: []string{"attempt_failure"}},
		{name: "the repository was deleted", acts: []rig.Act{good()}, repo: func(r *rig.Rig, name string) *rig.Repository {
			repo := r.Repository(name, rig.Shop())
			if err := os.RemoveAll(filepath.Join(r.Dir, "forge", name+".git")); err != nil {
				r.T.Fatal(err)
			}
			return repo
		}, state: failed, category: "REPOSITORY_ACCESS", code: "REPOSITORY_NOT_FOUND", kept: []string{"attempt_failure"}},
		{name: "the base does not exist", acts: []rig.Act{good()}, task: func(k *wire.TaskCreate) { k.BaseRef = "no-such-branch" },
			state: failed, category: "REPOSITORY_ACCESS", code: "REF_NOT_FOUND", says: "no such branch", kept: []string{"attempt_failure"}},
		{name: "the base is hostile", acts: []rig.Act{good()}, repo: func(r *rig.Rig, name string) *rig.Repository {
			return hostileRepository(r, name, "[submodule \"x\"]\n\tpath = x\n\turl = https://git.invalid/x.git\n")
		}, state: waits, look: func(t *testing.T, r *rig.Rig, repo *rig.Repository, got *wire.Run) {
			r.Person("ana").Approve(got.GateId)
			r.Await(got.Id, wire.RunStateSUCCEEDED)
			repo.Published(got.Id)
		}},
		{name: "the base has a submodule that runs a command", acts: []rig.Act{good()}, repo: func(r *rig.Rig, name string) *rig.Repository {
			return hostileRepository(r, name, "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% /tmp/x\n\tupdate = !touch /tmp/x\n")
		}, state: failed, category: "REPOSITORY_ACCESS", code: "REPOSITORY_UNSAFE", says: "broken or unsafe", kept: []string{"attempt_failure"}},
		{name: "the base has a .git inside", acts: []rig.Act{good()}, repo: func(r *rig.Rig, name string) *rig.Repository {
			repo := r.Repository(name, rig.Shop())
			blob := repo.Git("rev-parse", "main:check.sh")
			tree := repo.Feed("100755 blob "+blob+"\tpost-checkout\n", "mktree")
			tree = repo.Feed("040000 tree "+tree+"\thooks\n", "mktree")
			tree = repo.Feed(repo.Git("ls-tree", "main")+"\n040000 tree "+tree+"\t.git\n", "mktree")
			repo.Git("update-ref", "refs/heads/main", repo.Git("commit-tree", "-m", "Hooks", "-p", "main", tree))
			return repo
		}, state: failed, category: "REPOSITORY_ACCESS", code: "REPOSITORY_UNSAFE", says: "broken or unsafe", kept: []string{"attempt_failure"}},
	}
}

// hostileRepository has attributes that name filters, submodules, a link to the host, and hooks and settings where it lies.
func hostileRepository(r *rig.Rig, name, modules string) *rig.Repository {
	repo := r.Repository(name, rig.Shop())
	c := canary(r)
	entries := repo.Git("ls-tree", "main") + "\n160000 commit " + repo.Git("rev-parse", "main") + "\tx\n"
	for file, content := range map[string]string{
		"100644 blob %s\t.gitattributes": "* filter=evil diff=evil merge=evil ident\n*.sh export-subst working-tree-encoding=UTF-16\n",
		"100644 blob %s\t.gitmodules":    modules,
		"100644 blob %s\t.lfsconfig":     "[lfs]\n\turl = http://127.0.0.1:1/\n",
		"120000 blob %s\tusers":          "/etc/passwd",
	} {
		entries += fmt.Sprintf(file+"\n", repo.Feed(content, "hash-object", "-w", "--stdin"))
	}
	repo.Git("update-ref", "refs/heads/main", repo.Git("commit-tree", "-m", "Hostile", "-p", "main", repo.Feed(entries, "mktree")))
	repo.Git("config", "core.fsmonitor", "touch "+c)
	repo.Git("config", "uploadpack.packObjectsHook", "touch "+c+";")
	hook := filepath.Join(r.Dir, "forge", name+".git", "hooks", "reference-transaction")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		r.T.Fatal(err)
	}
	for _, h := range []string{"reference-transaction", "pre-receive", "post-receive", "update", "post-update", "push-to-checkout"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(hook), h), []byte("#!/bin/sh\ntouch "+c+"\n"), 0o755); err != nil {
			r.T.Fatal(err)
		}
	}
	return repo
}
