package db

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// ErrNotFound answers for an object that does not exist, or belongs to another
// tenant: the two are never told apart.
func notFound(what string) error {
	return fault.Newf(fault.NotFound, "There is no such %s, or you may not see it.", what)
}

// refused translates what the pure code refused, with the run's present state. The
// typed cause stays reachable with errors.As, so that a page can show more.
func refused(err error, r run.Run) error {
	err = refusal(err, r)
	if f, ok := err.(*fault.Error); ok { //nolint:errorlint // only what was made here is completed
		return f.WithState(string(r.State))
	}
	return err
}

func refusal(err error, r run.Run) error {
	if e, ok := errors.AsType[*run.IllegalError](err); ok {
		if r.State.Terminal() {
			return fault.Wrap(fault.Conflict, err, fmt.Sprintf("Nothing was changed: the run is already %s.", r.State)).WithCode("run_ended").WithStop()
		}
		if r.State == run.Cancelling {
			return fault.Wrap(fault.Conflict, err, "Nothing was changed: the run is being cancelled.").WithCode("run_cancelling").WithStop()
		}
		return fault.Wrap(fault.Conflict, err, fmt.Sprintf("Nothing was changed: %s does not fit a run that is %s.", e.Kind, e.State)).WithCode("illegal_event")
	}
	if _, ok := errors.AsType[*run.StaleLeaseError](err); ok {
		return fault.Wrap(fault.Conflict, err, fmt.Sprintf(
			"Nothing was changed: this lease is no longer the run's lease. The run is %s. Stop working on it.", r.State)).WithCode("stale_lease").WithStop()
	}
	if _, ok := errors.AsType[*run.LeaseHeldError](err); ok {
		return fault.Wrap(fault.Conflict, err, "Nothing was changed: a worker holds the run right now.").WithCode("lease_held")
	}
	if _, ok := errors.AsType[*run.ActorError](err); ok {
		return fault.Wrap(fault.Forbidden, err, "Nothing was changed: somebody else decides this.").WithCode("wrong_actor")
	}
	if e, ok := errors.AsType[*run.EvidenceError](err); ok {
		return fault.Wrap(fault.Invalid, err, fmt.Sprintf("Nothing was changed: %s is missing.", e.Missing)).WithCode("missing_evidence")
	}
	if e, ok := errors.AsType[*run.GuardError](err); ok {
		return fault.Wrap(fault.Conflict, err, "Nothing was changed. "+e.Sentence).WithCode("guard_" + e.Guard)
	}
	if e, ok := errors.AsType[*run.GateError](err); ok {
		return gateRefused(e)
	}
	if e, ok := errors.AsType[*run.TaskError](err); ok {
		return fault.Wrap(fault.Conflict, err, fmt.Sprintf("Nothing was changed: the task is %s.", e.State)).WithCode("illegal_task_event")
	}
	return err
}

func gateRefused(e *run.GateError) error {
	switch e.Why {
	case "expired":
		return fault.Wrap(fault.Gone, e, "Nothing was decided: this request has expired. Ask again first.").WithCode("gate_expired")
	case "stale":
		return fault.Wrap(fault.Conflict, e, "Nothing was decided: what you saw has changed since. Look at the new revision.").WithCode("stale_digest")
	case "claimed":
		return fault.Wrap(fault.Conflict, e, "Nothing was withdrawn: a worker has started already. You can cancel the run.").WithCode("already_started")
	}
	return fault.Wrap(fault.Conflict, e, "Nothing was decided: the run no longer waits at this gate.").WithCode("gate_closed")
}

// constraint returns the name of the constraint that err violates, or "".
func constraint(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.ConstraintName
	}
	return ""
}

// translate names the rule behind a constraint, so that a page can say it. Every
// constraint that a request can violate has a sentence; the others are faults of
// ours and stay internal.
func translate(err error, what string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound(what)
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pe.Code {
		case "22P05", "22021": // untranslatable_character, character_not_in_repertoire
			return fault.Wrap(fault.Invalid, err, "Nothing was changed: a text holds a character that cannot be stored (NUL, or broken UTF-8). Remove it and send the rest.").WithCode("bad_character")
		case "55P03", "57014", "40001", "40P01", "53300", "57P01", "57P02", "57P03":
			// Lock or statement time-out, lost races past all tries, no connection left, shutdown.
			return fault.Wrap(fault.Unavailable, err, "The database could not answer in time, so it is not certain that anything was changed. Send the same request again, with the same Idempotency-Key.").WithCode("database_busy")
		}
	}
	name := constraint(err)
	if sentence, ok := sentences()[name]; ok {
		return fault.Wrap(sentence.kind, err, sentence.text).WithCode(name)
	}
	return err
}

type ruleSentence struct {
	kind fault.Kind
	text string
}

func sentences() map[string]ruleSentence {
	return map[string]ruleSentence{
		"runs_terminal_is_final":       {fault.Conflict, "Nothing was changed: the run has ended, and that is final."},
		"runs_state_needs_event":       {fault.Conflict, "Nothing was changed: a run's state moves only by an event."},
		"repositories_name_key":        {fault.Conflict, "The repository was not registered: one with this name exists already."},
		"repositories_forge_fk":        {fault.Invalid, "The repository was not registered: there is no such forge."},
		"tasks_priority_check":         {fault.Invalid, "The task was not stored: its priority must be a number from -5 to 5."},
		"repositories_name_check":      {fault.Invalid, "The repository was not registered: its name must have 1 to 200 characters."},
		"forges_name_key":              {fault.Conflict, "The forge was not added: one with this name exists already."},
		"policies_version_key":         {fault.Conflict, "The policy was not stored: this version exists already."},
		"tasks_repository_fk":          {fault.Invalid, "The task was not stored: there is no such repository."},
		"tasks_parent_fk":              {fault.Invalid, "The task was not stored: there is no such parent task."},
		"tasks_title_check":            {fault.Invalid, "The task was not stored: its title must have 1 to 200 characters."},
		"tasks_goal_check":             {fault.Invalid, "The task was not stored: its goal must have 1 to 50,000 characters."},
		"providers_name_key":           {fault.Conflict, "The provider was not added: one with this name exists already."},
		"log_chunks_size_check":        {fault.TooLarge, "The log was not stored: a chunk holds at most 64 KiB."},
		"pull_requests_head_key":       {fault.Conflict, "No second pull request was made: one for this branch exists already."},
		"worker_boots_max_check":       {fault.Invalid, "The worker was not registered: it must offer 1 to 1000 runs at once."},
		"memberships_roles_check":      {fault.Invalid, "The roles were not stored: one of them does not exist."},
		"artifacts_kind_check":         {fault.Invalid, "The artifact was not stored: its kind does not exist."},
		"artifacts_size_check":         {fault.Invalid, "The artifact was not stored: its size cannot be negative."},
		"tasks_mode_check":             {fault.Invalid, "The task was not stored: its completion mode does not exist."},
		"tasks_risk_check":             {fault.Invalid, "The task was not stored: its risk class does not exist."},
		"tasks_kind_check":             {fault.Invalid, "The task was not stored: its kind does not exist."},
		"steps_state_check":            {fault.Invalid, "The steps were not stored: the state of one does not exist."},
		"usages_source_check":          {fault.Invalid, "The usage was not stored: its source is reported, estimated or unknown."},
		"usages_amounts_check":         {fault.Invalid, "The usage was not stored: an amount is negative, or larger than a million million."},
		"operations_kind_check":        {fault.Invalid, "Nothing was recorded: there is no such kind of operation."},
		"operations_outcome_check":     {fault.Invalid, "Nothing was recorded: an operation's outcome is succeeded, failed or ambiguous."},
		"pull_requests_state_check":    {fault.Invalid, "Nothing was changed: a pull request has no such state."},
		"worker_boots_isolation_check": {fault.Invalid, "The worker was not registered: its isolation does not exist."},
		"forges_kind_check":            {fault.Invalid, "The forge was not added: there is no such kind of forge."},
		"group_roles_role_check":       {fault.Invalid, "The roles were not stored: one of them does not exist."},
		"decisions_channel_check":      {fault.Invalid, "Nothing was decided: a decision comes from a page or by the API."},
		"idempotency_keys_key_check":   {fault.Invalid, "Nothing was changed: an Idempotency-Key has 1 to 200 characters."},
	}
}

// noFunction reports that the schema lacks a function that this program calls.
func noFunction(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == "42883"
}
