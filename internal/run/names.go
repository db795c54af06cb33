package run

// OtherName maps a state's name in another vocabulary for agent runs to ours, so
// that a reader who knows that one finds the way (R-DOM-12).
type OtherName struct {
	Vocabulary string
	Theirs     string
	// Ours are the states that cover it; empty where it is no state at all here.
	Ours  []State
	Notes string
}

// OtherNames lists the names that differ.
func OtherNames() []OtherName {
	const queue, attest = "worker queue and scheduler", "independent attestation"
	return []OtherName{
		{queue, "ADMITTED", []State{Created}, "admission ends CREATED"},
		{queue, "WAITING_CAPACITY", []State{Created}, "a deferral with its reason"},
		{queue, "CLAIMED", []State{Leased}, ""},
		{queue, "PREPARING_SANDBOX", []State{Preparing}, ""},
		{queue, "RUNNING", []State{Executing}, ""},
		{queue, "FINALIZING", []State{PRCreating}, ""},
		{queue, "POLICY_DENIED", []State{Failed}, "category and reason code POLICY_DENIED"},
		{queue, "STALE_LEASE", nil, "no state: the answer to a worker whose lease is gone"},
		{queue, "FAILED_RETRYABLE", nil, "no state: the run is QUEUED again with a new attempt"},
		{attest, "ADMITTED", []State{Queued}, ""},
		{attest, "VALIDATING", []State{Verifying, Judging}, ""},
		{attest, "VERIFIED", []State{Succeeded}, "only where an attestor accepted the result"},
	}
}
