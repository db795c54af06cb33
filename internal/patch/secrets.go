package patch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"github.com/spf13/viper"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
)

// ScanLimit is the largest amount of added text that is scanned, in bytes.
// More is "not scanned", which is never a pass.
const ScanLimit = 2 << 20

// ScanState is the outcome of a scan for secrets.
type ScanState string

// States of a scan. There is no zero value that passes.
const (
	ScanClean      ScanState = "clean"
	ScanFindings   ScanState = "findings"
	ScanNotScanned ScanState = "not_scanned"
)

// Finding is something that looks like a secret. It never holds the secret.
type Finding struct {
	Rule string `json:"rule"`
	What string `json:"what"` // the rule's description
	File string `json:"file"`
	Line int    `json:"line"` // in the new file; 0 for a whole file
}

// String shows it as "rule in file:line".
func (f Finding) String() string { return fmt.Sprintf("%s in %s:%d", f.Rule, f.File, f.Line) }

// ScanResult is what Scan answers.
type ScanResult struct {
	State    ScanState `json:"state"`
	Findings []Finding `json:"findings"`
	Words    string    `json:"words"`
}

// maxFindings bounds the list.
const maxFindings = 100

// Scanner looks for secrets in added lines. It is safe for concurrent use;
// the rules are compiled at the first scan (0.2 s), so keep one.
type Scanner struct {
	load func() (*detect.Detector, error)
}

// NewScanner returns a scanner with gitleaks' own rules.
func NewScanner() *Scanner { return &Scanner{load: sync.OnceValues(loadDetector)} }

// Scan looks for secrets in everything that the patch adds, paths and binary
// content included. What could not be looked at is ScanNotScanned.
func (s *Scanner) Scan(ctx context.Context, p *Patch) ScanResult {
	d, err := s.load()
	if err != nil {
		return notScanned("The rules of the secret scan could not be loaded.")
	}
	found, left := []Finding{}, int64(ScanLimit)
	for i, gf := range p.files {
		f := p.facts.Files[i]
		text, lines, ok := addedText(gf, &left)
		if !ok {
			return notScanned(fmt.Sprintf("The patch adds more than %d MiB or content that cannot be read, so it was not scanned for secrets.", ScanLimit>>20))
		}
		if f.Status == Deleted {
			continue
		}
		//lint:ignore SA1019 its successor comes with version 9, which is not out
		for _, hit := range d.DetectContext(ctx, detect.Fragment{Raw: text, FilePath: f.NewPath}) {
			if hit.RuleID == "generic-api-key" && f.Is(ClassLockfile) {
				continue // checksums; every specific rule still holds there
			}
			line := 0
			if hit.StartLine >= 0 && hit.StartLine < len(lines) {
				line = lines[hit.StartLine]
			}
			found = append(found, Finding{Rule: hit.RuleID, What: hit.Description, File: f.NewPath, Line: line})
		}
		if ctx.Err() != nil {
			return notScanned("The secret scan was stopped before its end.")
		}
	}
	if len(found) == 0 {
		return ScanResult{State: ScanClean, Findings: found, Words: "No secret was found in what the patch adds."}
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule))
	})
	found = slices.Compact(found)
	words := fmt.Sprintf("%d places look like a secret.", len(found))
	if len(found) == 1 {
		words = "One place looks like a secret."
	}
	return ScanResult{State: ScanFindings, Findings: found[:min(len(found), maxFindings)], Words: words}
}

// InText reports whether free text holds something that looks like a secret. An error says that it could not be looked
// at, which is never a pass.
func (s *Scanner) InText(ctx context.Context, text string) (bool, error) {
	d, err := s.load()
	if err != nil {
		return false, err
	}
	//lint:ignore SA1019 its successor comes with version 9, which is not out
	hits := d.DetectContext(ctx, detect.Fragment{Raw: text})
	return len(hits) > 0, ctx.Err()
}

func notScanned(words string) ScanResult {
	return ScanResult{State: ScanNotScanned, Findings: []Finding{}, Words: words}
}

// addedText joins what a file adds, with the new file's line number for each
// line of the text. ok is false when the budget is spent or binary content
// cannot be unpacked.
func addedText(gf *gitdiff.File, left *int64) (text string, lines []int, ok bool) {
	var b strings.Builder
	for n, l := range addedLines(gf) {
		if *left -= int64(len(l)); *left < 0 {
			return "", nil, false
		}
		b.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			b.WriteByte('\n')
		}
		lines = append(lines, n)
	}
	if frag := gf.BinaryFragment; frag != nil && !gf.IsDelete {
		// A literal is the file itself; a delta carries the new bytes in
		// pieces. Either way they are text enough for a look.
		data, err := io.ReadAll(io.LimitReader(frag.Data(), *left+1))
		if *left -= int64(len(data)); err != nil || *left < 0 {
			return "", nil, false
		}
		b.Write(data)
	}
	return b.String(), lines, true
}

// loadDetector compiles gitleaks' default rules with its doors shut: the
// author of the patch chooses file names and comments, so neither a path on
// an allow-list nor "gitleaks:allow" may hide anything.
func loadDetector() (*detect.Detector, error) {
	v := viper.New()
	v.SetConfigType("toml")
	if err := v.ReadConfig(strings.NewReader(config.DefaultConfig)); err != nil {
		return nil, fmt.Errorf("read secret rules: %w", err)
	}
	var vc config.ViperConfig
	if err := v.Unmarshal(&vc); err != nil {
		return nil, fmt.Errorf("read secret rules: %w", err)
	}
	cfg, err := vc.Translate()
	if err != nil {
		return nil, fmt.Errorf("compile secret rules: %w", err)
	}
	if cfg.Allowlists, err = withoutPaths(cfg.Allowlists); err != nil {
		return nil, err
	}
	for id, r := range cfg.Rules {
		if r.Allowlists, err = withoutPaths(r.Allowlists); err != nil {
			return nil, err
		}
		cfg.Rules[id] = r
	}
	d := detect.NewDetector(cfg)
	d.IgnoreGitleaksAllow = true
	d.MaxDecodeDepth = 2 // base64, hex and percent encoding around a secret
	return d, nil
}

// withoutPaths drops paths from allow-lists. One that holds only for certain
// paths (condition AND) is dropped whole.
func withoutPaths(lists []*config.Allowlist) ([]*config.Allowlist, error) {
	var out []*config.Allowlist
	for _, a := range lists {
		if len(a.Paths) > 0 && a.MatchCondition == config.AllowlistMatchAnd {
			continue
		}
		n := &config.Allowlist{
			Description: a.Description, MatchCondition: a.MatchCondition,
			RegexTarget: a.RegexTarget, Regexes: a.Regexes, StopWords: a.StopWords,
		}
		if len(n.Regexes) == 0 && len(n.StopWords) == 0 {
			continue
		}
		if err := n.Validate(); err != nil {
			return nil, fmt.Errorf("secret rules: %w", err)
		}
		out = append(out, n)
	}
	return out, nil
}
