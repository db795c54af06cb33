package handlers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/patch"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// maxArtifact bounds an uploaded artifact, in bytes.
const maxArtifact = 64 << 20

// upload is the description of an artifact in the address.
type upload struct {
	kind, name, sha256 string
	lease              string
	token              int64
	patchDigest        string
}

func readUpload(r *http.Request) (upload, error) {
	q := r.URL.Query()
	u := upload{kind: q.Get("kind"), name: q.Get("name"), sha256: q.Get("sha256"), lease: q.Get("lease_id"), patchDigest: q.Get("patch_digest")}
	var fields []wire.FieldError
	wrong := func(field, sentence string) {
		fields = append(fields, wire.FieldError{Field: field, Message: sentence})
	}
	if !wire.ArtifactKind(u.kind).Valid() {
		wrong("kind", "This is not a kind of artifact.")
	}
	if n := len([]rune(u.name)); n == 0 || n > 200 || strings.ContainsFunc(u.name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '/' || c == '\\' }) {
		wrong("name", "A name has 1 to 200 characters, without separators and control characters.")
	}
	if !hexDigest(u.sha256) {
		wrong("sha256", "This must be the SHA-256 of the body in lower-case hexadecimal.")
	}
	if u.patchDigest != "" && !hexDigest(u.patchDigest) {
		wrong("patch_digest", "This must be a SHA-256 in lower-case hexadecimal.")
	}
	for _, field := range []string{"base_commit", "result_tree"} {
		if v := q.Get(field); v != "" && !regexp.MustCompile(`^[0-9a-f]{40,64}$`).MatchString(v) {
			wrong(field, "This must be the name of a git object.")
		}
	}
	token, err := strconv.ParseInt(q.Get("fencing_token"), 10, 64)
	if err != nil {
		wrong("fencing_token", "This must be a whole number.")
	}
	u.token = token
	if len(fields) > 0 {
		return u, invalidFields(fields)
	}
	return u, nil
}

func hexDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(s) == s
}

// apiUploadArtifact stores bytes and, for those that guards stand on, what the server itself finds in them.
func (s *server) apiUploadArtifact(w http.ResponseWriter, r *http.Request) error {
	u, err := readUpload(r)
	if err != nil {
		return err
	}
	h, err := s.holder(r, u.lease, u.token)
	if err != nil {
		return err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/octet-stream" {
		return fault.New(fault.Invalid, "Nothing was stored: the body must be sent as application/octet-stream.").WithCode("content_type")
	}
	// Bytes that nobody may keep are not even read: they would fill the store.
	if err := s.store.MayStore(r.Context(), h); err != nil {
		return err
	}
	limit := int64(maxArtifact)
	switch wire.ArtifactKind(u.kind) {
	case wire.ArtifactKindPatch:
		limit = patch.MaxBytes
	case wire.ArtifactKindBaseTexts:
		limit = patch.MaxBase
	}
	blob, err := s.artifacts.Put(r.Context(), h.Ref.Tenant, r.Body, limit)
	if err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return fault.Newf(fault.TooLarge, "Nothing was stored: the artifact is larger than %d bytes.", tooLarge.Limit).WithCode("too_large")
		}
		return err
	}
	if blob.SHA256 != u.sha256 {
		return fault.New(fault.Invalid, "Nothing was recorded: the body does not have the SHA-256 that was named, so it did not arrive as it was sent.").WithField("sha256").WithCode("digest_mismatch")
	}
	record := db.NewArtifact{Kind: u.kind, Name: u.name, SHA256: blob.SHA256, Size: blob.Size, BlobKey: blob.Key}
	if err := s.findings(r, h, u, &record); err != nil {
		return err
	}
	stored, err := s.store.PutArtifact(r.Context(), h, record)
	if err != nil {
		return err
	}
	info, err := s.store.Artifact(r.Context(), h.Ref.Tenant, stored.ID)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusCreated, wireArtifact(info))
}

// findings parses and scans what the worker stored: it is believed nothing (R-TRN-8).
func (s *server) findings(r *http.Request, h db.Holder, u upload, a *db.NewArtifact) error {
	switch wire.ArtifactKind(u.kind) {
	case wire.ArtifactKindPatch:
		raw, err := s.artifacts.Read(r.Context(), h.Ref.Tenant, a.SHA256, patch.MaxBytes)
		if err != nil {
			return err
		}
		a.Patch = s.readPatch(r, raw)
	case wire.ArtifactKindVerificationReport:
		raw, err := s.artifacts.Read(r.Context(), h.Ref.Tenant, a.SHA256, maxReport)
		if err != nil {
			return err
		}
		record, err := readVerification(raw, u.patchDigest)
		if err != nil {
			return err
		}
		a.Verification = &record
	case wire.ArtifactKindPlan:
		raw, err := s.artifacts.Read(r.Context(), h.Ref.Tenant, a.SHA256, 4<<20)
		if err != nil {
			return err
		}
		return checkPlan(raw)
	case wire.ArtifactKindJudgeReport:
		raw, err := s.artifacts.Read(r.Context(), h.Ref.Tenant, a.SHA256, maxReport)
		if err != nil {
			return err
		}
		var j judgement
		if err := json.Unmarshal(raw, &j); err != nil {
			return fault.Wrap(fault.Invalid, err, "Nothing was recorded: the judge's report is not the JSON document that it should be.").WithCode("report_unreadable")
		}
	}
	return nil
}

// readPatch says what is in a patch; one that cannot be read has a code and no file.
func (s *server) readPatch(r *http.Request, raw []byte) *db.PatchFacts {
	p, err := patch.Parse(raw, patch.MaxBytes)
	if err != nil {
		code := run.CodePatchInvalid
		if f, ok := fault.Find(err); ok && f.Code == patch.CodeTooLarge {
			code = run.CodePatchTooLarge
		}
		return &db.PatchFacts{Facts: patch.Facts{Digest: patch.Digest(raw), Bytes: int64(len(raw)), Files: []patch.File{}}, Scan: patch.ScanResult{State: patch.ScanNotScanned, Words: fault.Sentence(err)}, Fault: code}
	}
	return &db.PatchFacts{Facts: p.Facts(), Scan: s.scanner.Scan(r.Context(), p), Hidden: p.Hidden()}
}

// readVerification reads the report's own words and holds them against each other: a report that says "passed" and
// names a blocking command did not pass.
func readVerification(raw []byte, patchDigest string) (db.VerificationRecord, error) {
	var v verification
	if err := json.Unmarshal(raw, &v); err != nil {
		return db.VerificationRecord{}, fault.Wrap(fault.Invalid, err, "Nothing was recorded: the verification report is not the JSON document that it should be.").WithCode("report_unreadable")
	}
	if patchDigest != "" && v.PatchDigest != patchDigest {
		return db.VerificationRecord{}, fault.New(fault.Invalid, "Nothing was recorded: the report is about another patch than the address says.").WithField("patch_digest").WithCode("other_patch")
	}
	if !hexDigest(v.PatchDigest) {
		return db.VerificationRecord{}, fault.New(fault.Invalid, "Nothing was recorded: the report does not say which patch it is about.").WithField("patch_digest").WithCode("report_unreadable")
	}
	record := db.VerificationRecord{PatchDigest: v.PatchDigest, Infrastructure: v.Verdict == "error", Summary: clipText(v.Summary, 2000)}
	blocked := false
	sum := sha256.New()
	for _, c := range v.Commands {
		if !c.Blocks {
			continue
		}
		blocked = true
		fmt.Fprintf(sum, "%q %q %d\n%s\n", c.Name, c.Class, c.ExitCode, letters(c.end()))
	}
	record.Passed = v.Verdict == "passed" && !blocked
	if blocked {
		record.Fingerprint = hex.EncodeToString(sum.Sum(nil))
	}
	return record, nil
}

// letters drops what differs between two runs of the same failure: digits (times, addresses, counters) and blanks.
func letters(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c == ' ' || c == '\t' || c == '\r' {
			return -1
		}
		return c
	}, s)
}

func clipText(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// plan is what a stored plan must say (R-PLAN-1).
type plan struct {
	Summary          string    `json:"summary"`
	Files            *[]string `json:"files"`
	Verifiers        *[]string `json:"verifiers"`
	Risks            *[]string `json:"risks"`
	StopCondition    string    `json:"stop_condition"`
	ForbiddenChanges *[]string `json:"forbidden_changes"`
	Steps            []string  `json:"steps"`
}

// maxPlanEntries bounds each list of a plan, as it does in the agents' own form.
const maxPlanEntries = 500

func checkPlan(raw []byte) error {
	var p plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return fault.Wrap(fault.Invalid, err, "Nothing was recorded: the plan is not the JSON document that it should be.").WithCode("plan_unreadable")
	}
	var fields []wire.FieldError
	for name, list := range map[string]*[]string{"files": p.Files, "verifiers": p.Verifiers, "risks": p.Risks, "forbidden_changes": p.ForbiddenChanges} {
		if list == nil {
			fields = append(fields, wire.FieldError{Field: name, Message: "A plan must say this, if only with an empty list."})
		}
		if n := len(listOf(list)); n > maxPlanEntries {
			fields = append(fields, wire.FieldError{Field: name, Message: fmt.Sprintf("It has %d entries; people read at most %d.", n, maxPlanEntries)})
		}
	}
	if n := len(p.Steps); n > maxPlanEntries {
		fields = append(fields, wire.FieldError{Field: "steps", Message: fmt.Sprintf("It has %d entries; people read at most %d.", n, maxPlanEntries)})
	}
	if p.StopCondition == "" {
		fields = append(fields, wire.FieldError{Field: "stop_condition", Message: "A plan must say when the agent is done."})
	}
	if len(fields) > 0 {
		return invalidFields(fields)
	}
	return nil
}

// artifact reads an artifact's description; a worker only that of a run whose lease it holds.
func (s *server) artifact(r *http.Request, param string) (db.ArtifactInfo, error) {
	id, err := pathID(r, param, typeid.Artifact)
	if err != nil {
		return db.ArtifactInfo{}, err
	}
	p := who(r)
	tenant, err := tenantOf(r, func() (uuid.UUID, error) { return s.store.TenantOfArtifact(r.Context(), p.credential, id) })
	if err != nil {
		return db.ArtifactInfo{}, err
	}
	a, err := s.store.Artifact(r.Context(), tenant, id)
	if err != nil {
		return a, err
	}
	if p.kind == worker {
		_, err = s.ownRun(r, a.Run)
	}
	return a, err
}

func (s *server) apiArtifact(w http.ResponseWriter, r *http.Request) error {
	a, err := s.artifact(r, "artifact_id")
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, wireArtifact(a))
}

func (s *server) apiRunArtifacts(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "run_id", typeid.Run)
	if err != nil {
		return err
	}
	info, err := s.ownRun(r, id)
	if err != nil {
		return err
	}
	all, err := s.store.Artifacts(r.Context(), info.Tenant, id)
	if err != nil {
		return err
	}
	list := wire.ArtifactList{Items: []wire.Artifact{}}
	for _, a := range all {
		list.Items = append(list.Items, wireArtifact(a))
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiArtifactContent(w http.ResponseWriter, r *http.Request) error {
	a, err := s.artifact(r, "artifact_id")
	if err != nil {
		return err
	}
	return s.download(w, r, a)
}

// getArtifact is the same download for a page.
func (s *server) getArtifact(w http.ResponseWriter, r *http.Request) error {
	a, err := s.artifact(r, "id")
	if err != nil {
		return err
	}
	return s.download(w, r, a)
}

func (s *server) apiRunPatch(w http.ResponseWriter, r *http.Request) error {
	return s.patchDownload(w, r, "run_id")
}

func (s *server) getRunPatch(w http.ResponseWriter, r *http.Request) error {
	return s.patchDownload(w, r, "id")
}

func (s *server) patchDownload(w http.ResponseWriter, r *http.Request, param string) error {
	id, err := pathID(r, param, typeid.Run)
	if err != nil {
		return err
	}
	info, err := s.ownRun(r, id)
	if err != nil {
		return err
	}
	a, err := s.runPatch(r, info)
	if err != nil {
		return err
	}
	return s.download(w, r, a)
}

// runPatch is the patch that the run stands on, whatever was stored after it; the newest one where it stands on none.
func (s *server) runPatch(r *http.Request, info db.RunInfo) (db.ArtifactInfo, error) {
	if p := info.Patch; p != nil {
		id, err := typeid.Parse(typeid.Artifact, p.Artifact)
		if err != nil {
			return db.ArtifactInfo{}, fmt.Errorf("patch of run %s: %w", info.ID, err)
		}
		return s.store.Artifact(r.Context(), info.Tenant, id)
	}
	all, err := s.store.Artifacts(r.Context(), info.Tenant, info.ID)
	if err != nil {
		return db.ArtifactInfo{}, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Kind == string(wire.ArtifactKindPatch) && !all[i].Late {
			return all[i], nil
		}
	}
	return db.ArtifactInfo{}, fault.New(fault.NotFound, "This run has not stored a patch.")
}

// download sends bytes that nobody should run: always as a file, never sniffed, never rendered (B10). The digest is
// verified while they are sent; damage breaks the connection, so that a cut file is not taken for a whole one.
func (s *server) download(w http.ResponseWriter, r *http.Request, a db.ArtifactInfo) error {
	content, err := s.artifacts.Get(r.Context(), a.Tenant, a.SHA256)
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.Name}))
	h.Set("Content-Length", strconv.FormatInt(a.Size, 10))
	h.Set("Content-Security-Policy", downloadPolicy)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, content); err != nil {
		s.note(r, fmt.Errorf("send artifact: %w", err))
		panic(http.ErrAbortHandler)
	}
	return nil
}
