package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"

	"signalbox/db"
	"signalbox/internal/checkpoint"
	"signalbox/internal/config"
	"signalbox/internal/control"
	"signalbox/internal/evidence"
)

type auditCmd struct {
	List   auditListCmd   `cmd:"" help:"List who did what; for administrators."`
	Verify auditVerifyCmd `cmd:"" help:"Check the audit log's hash chains, and with checkpoints that nothing was taken off their ends."`
	Key    auditKeyCmd    `cmd:"" help:"Print the public key of SIGNALBOX_AUDIT_KEY, with which checkpoints are checked elsewhere."`
}

type auditVerifyCmd struct {
	Tenant      string   `help:"Name or id of one tenant; all without it." placeholder:"NAME"`
	Checkpoints string   `help:"Folder of the checkpoints; SIGNALBOX_AUDIT_CHECKPOINTS without it." placeholder:"FOLDER"`
	PublicKey   []string `help:"Public key that checkpoints may be signed with, as audit key prints it; that of SIGNALBOX_AUDIT_KEY and SIGNALBOX_AUDIT_OLD_KEYS without it. May be given several times." placeholder:"KEY" sep:"none"`
}

// Run ends with code 1 where a log or a checkpoint does not hold.
func (c auditVerifyCmd) Run(ctx context.Context, t terminal) error {
	cfg, err := config.LoadServer("audit", t.Env)
	if err != nil {
		return fmt.Errorf("nothing was checked:\n%w", err)
	}
	if cfg.DatabaseURL.Reveal() == "" {
		return errors.New("nothing was checked: SIGNALBOX_DATABASE_URL is not set (nor SIGNALBOX_DATABASE_URL_FILE)")
	}
	points, bad, err := c.checkpoints(cfg, t)
	if err != nil {
		return fmt.Errorf("nothing was checked: %w", err)
	}
	store, err := db.Open(ctx, db.Options{URL: cfg.DatabaseURL.Reveal(), MaxConns: 2})
	if err != nil {
		return err
	}
	defer store.Close()
	broken, err := c.verify(ctx, t, store, points, c.Checkpoints != "" || cfg.AuditCheckpoints != "")
	if err != nil {
		return err
	}
	if broken > 0 || bad > 0 {
		return &silentError{code: 1}
	}
	return nil
}

// checkpoints reads those that the keys signed and names all others, which it counts.
func (c auditVerifyCmd) checkpoints(cfg config.Server, t terminal) ([]evidence.Checkpoint, int, error) {
	folder := c.Checkpoints
	if folder == "" {
		folder = cfg.AuditCheckpoints
	}
	if folder == "" {
		fmt.Fprintln(t.Out, "Without checkpoints: that rows were taken off the end, or that the whole log was written anew, cannot be seen.")
		return nil, 0, nil
	}
	var keys []ed25519.PublicKey
	for _, text := range c.PublicKey {
		key, err := evidence.PublicKey(text)
		if err != nil {
			return nil, 0, fmt.Errorf("--public-key: %w", err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		key, err := publicKey(cfg)
		if err != nil {
			return nil, 0, err
		}
		old, err := oldKeys(cfg)
		if err != nil {
			return nil, 0, err
		}
		keys = append(old, key)
	}
	points, problems, err := checkpoint.Folder(folder).Read(keys)
	for _, p := range problems {
		fmt.Fprintf(t.Out, "%s, line %d: %s\n", p.File, p.Line, p.Why)
	}
	return points, len(problems), err
}

// verify counts the tenants whose log does not hold. Where checkpoints are kept, a log that none of them is about does not either:
// nobody could tell it from one that was written anew.
func (c auditVerifyCmd) verify(ctx context.Context, t terminal, store *db.Store, points []evidence.Checkpoint, kept bool) (broken int, err error) {
	tenants, err := store.AuditTenants(ctx, points)
	if err != nil {
		return 0, err
	}
	looked := 0
	for _, tenant := range tenants {
		if c.Tenant != "" && c.Tenant != tenant.Name && c.Tenant != tenant.Tenant.String() {
			continue
		}
		looked++
		name := tenant.Name
		if name == "" {
			name = tenant.Tenant.String() + " (unknown to the database)"
		}
		report, err := store.VerifyAudit(ctx, tenant.Tenant, points)
		switch {
		case err != nil:
			return broken, fmt.Errorf("%s: %w", name, err)
		case report.Fault != nil:
			broken++
			fmt.Fprintf(t.Out, "%s: %d rows hold, then number %d is the first that does not: %s\n", name, report.Fault.Seq-1, report.Fault.Seq, report.Fault.Why)
		case kept && report.Rows > 0 && report.Vouched == 0:
			broken++
			fmt.Fprintf(t.Out, "%s: %d rows hold together, and no checkpoint is about any of them: its file is missing, the folder is another one, or its first action is younger than a minute\n", name, report.Rows)
		default:
			fmt.Fprintf(t.Out, "%s: %d rows hold, %d of them agree with a checkpoint\n", name, report.Rows, report.Vouched)
		}
	}
	if looked == 0 {
		return 0, fmt.Errorf("nothing was checked: there is no tenant %q", c.Tenant)
	}
	return broken, nil
}

// checkpoints says where the server keeps signed ends of the audit log, nil where nobody configured it.
func checkpoints(cfg config.Server, store *db.Store) (*control.Checkpoints, error) {
	if cfg.AuditCheckpoints == "" {
		return nil, nil
	}
	key, err := evidence.SigningKey(cfg.AuditKey.Reveal())
	if err != nil {
		return nil, fmt.Errorf("nothing was started: SIGNALBOX_AUDIT_KEY: %w", err)
	}
	folder, err := checkpoint.Open(cfg.AuditCheckpoints)
	if err != nil {
		return nil, fmt.Errorf("nothing was started: SIGNALBOX_AUDIT_CHECKPOINTS: %w", err)
	}
	old, err := oldKeys(cfg)
	if err != nil {
		return nil, fmt.Errorf("nothing was started: %w", err)
	}
	return &control.Checkpoints{Store: store, Folder: folder, Key: key, Old: old}, nil
}

// oldKeys are those that signed before SIGNALBOX_AUDIT_KEY was changed.
func oldKeys(cfg config.Server) (keys []ed25519.PublicKey, err error) {
	for _, text := range cfg.AuditOldKeys {
		key, err := evidence.PublicKey(text)
		if err != nil {
			return nil, fmt.Errorf("SIGNALBOX_AUDIT_OLD_KEYS: %w", err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

type auditKeyCmd struct{}

// Run prints the public key.
func (auditKeyCmd) Run(t terminal) error {
	cfg, err := config.LoadServer("audit", t.Env)
	if err != nil {
		return err
	}
	key, err := publicKey(cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.Out, base64.StdEncoding.EncodeToString(key))
	return err
}

func publicKey(cfg config.Server) (ed25519.PublicKey, error) {
	key, err := evidence.SigningKey(cfg.AuditKey.Reveal())
	if err != nil {
		return nil, fmt.Errorf("SIGNALBOX_AUDIT_KEY: %w", err)
	}
	public, _ := key.Public().(ed25519.PublicKey)
	return public, nil
}
