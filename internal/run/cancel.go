package run

// CancelRule says what a request to cancel does in one state: data for the page
// that asks "are you sure?" and for the docs (R-CAN-2).
type CancelRule struct {
	State State
	// Does is what happens, Stays what is kept, Goes what is given up.
	Does  string
	Stays string
	Goes  string
}

// CancelRules returns one rule for each active state. Where a lease is active the
// run becomes CANCELLING and its worker is told; otherwise it is CANCELLED at once.
func CancelRules() []CancelRule {
	return []CancelRule{
		{Created, "It leaves the queue for admission.", "The task and its contract.", "The place in the queue."},
		{Queued, "It leaves the queue.", "The task, and the logs of earlier attempts.", "The place in the queue."},
		{Leased, "The worker stops before it begins.", "The logs of earlier attempts.", "The attempt."},
		{Preparing, "The worker stops setting up and cleans what it had made.", "The set-up log.", "The sandbox and the checkout."},
		{ContextBuilding, "The worker stops.", "What was read of the repository.", "The sandbox and the checkout."},
		{Planning, "The agent stops.", "What was read, and the draft of the plan.", "The sandbox and the agent's session."},
		{Executing, "The agent stops at its next safe point.", "The logs and the diff so far.", "The sandbox and the workspace."},
		{PatchReady, "Nobody verifies the patch.", "The stored patch.", "Its verification."},
		{Verifying, "The running check is stopped where that is safe.", "The patch and the report so far.", "The sandbox; the verdict stays open."},
		{Judging, "The judge stops.", "The patch and its reports.", "The verdict."},
		{WaitingForApproval, "The gate is closed; nobody can approve it any more.", "What was to be decided, with its evidence.", "The request."},
		{PRCreating, "The publisher stops, and each effect that may have happened is looked up.", "The patch, and a branch that was pushed already.", "The pull request, unless it exists by then: closing it is offered."},
		{PRCreated, "Refused: the pull request exists.", "The pull request; closing it is offered.", "Nothing."},
		{AwaitingVerification, "The request for an attestation is withdrawn.", "The result, and a pull request that exists: closing it is offered.", "The attestation."},
		{Cancelling, "It is recorded; the first request goes on.", "What the first request keeps.", "Nothing more."},
	}
}

// CancelRuleOf returns the rule for a state, and false for a terminal one: a
// finished run cannot be cancelled.
func CancelRuleOf(s State) (CancelRule, bool) {
	for _, c := range CancelRules() {
		if c.State == s {
			return c, true
		}
	}
	return CancelRule{}, false
}
