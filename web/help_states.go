package web

import (
	"slices"
	"strings"

	"signalbox/internal/run"
	"signalbox/web/ui"
)

// StatesPageData is the page that says how to read the states of a run.
type StatesPageData struct {
	Shell Shell
}

// stateHelp is one state in plain words, with its ways out as the run's own table has them.
type stateHelp struct {
	State  string
	Status ui.Status
	Says   string
	Ways   []stateWay
}

// stateWay is one state that may follow, and who decides it.
type stateWay struct {
	To ui.Status
	By string
}

// statesHelp lists every state in the order of the happy path.
func statesHelp() []stateHelp {
	var all []stateHelp
	for _, s := range run.States() {
		all = append(all, stateHelp{State: string(s), Status: ui.RunStatus(string(s)), Says: stateSays(s), Ways: waysFrom(s)})
	}
	return all
}

// waysFrom reads from the table what may follow a state; an event that changes nothing is no way.
func waysFrom(s run.State) []stateWay {
	by := map[run.State][]string{}
	var order []run.State
	for _, t := range run.Transitions() {
		if !slices.Contains(t.From, s) {
			continue
		}
		for _, to := range t.To {
			if to == run.Unchanged || to == s {
				continue
			}
			if by[to] == nil {
				order = append(order, to)
			}
			for _, who := range t.By {
				if words := actorWords(who); !slices.Contains(by[to], words) {
					by[to] = append(by[to], words)
				}
			}
		}
	}
	slices.SortStableFunc(order, func(a, b run.State) int { return slices.Index(run.States(), a) - slices.Index(run.States(), b) })
	var ways []stateWay
	for _, to := range order {
		ways = append(ways, stateWay{ui.RunStatus(string(to)), sentenceList(by[to])})
	}
	return ways
}

// actorWords names who decides as the timeline does.
func actorWords(a run.ActorKind) string {
	switch a {
	case run.Human:
		return "a person"
	case run.AgentRuntime:
		return "the agent"
	case run.ControlPlane:
		return "Signalbox"
	case run.Worker, run.Verifier, run.Judge, run.Scheduler:
		return "the " + strings.ReplaceAll(string(a), "_", " ")
	default:
		return strings.ReplaceAll(string(a), "_", " ")
	}
}

// stateSays is what is true in a state, whose turn it is and what to do.
func stateSays(s run.State) string {
	switch s {
	case run.Created:
		return "The run exists and policy has not let it begin yet. Nothing is to be done: it is asked again by itself, and the page says why it waits."
	case run.Queued:
		return "Policy let it begin; it waits for a worker. If that takes long, the page says what no worker offers, or which limit holds."
	case run.Leased:
		return "A worker has taken it and is about to start."
	case run.Preparing:
		return "The worker makes a sandbox and a fresh copy of the repository."
	case run.ContextBuilding:
		return "The worker reads the repository. Nothing is edited."
	case run.Planning:
		return "The agent writes its plan. Nothing is edited before there is one."
	case run.Executing:
		return "The agent changes code inside its sandbox. Nothing is pushed."
	case run.PatchReady:
		return "The change is stored as a patch and waits for a verifier."
	case run.Verifying:
		return "The repository's own checks run over the patch, in a fresh copy."
	case run.Judging:
		return "The reports are there; policy decides whether a person is asked."
	case run.WaitingForApproval:
		return "A person's turn: somebody other than the requester approves, asks for changes or rejects. Nothing is worked on meanwhile."
	case run.PRCreating:
		return "The approved patch, and nothing else, is pushed as a branch and one pull request is opened."
	case run.PRCreated:
		return "The pull request is open. The run completes by itself."
	case run.AwaitingVerification:
		return "Somebody who did not do the work has to attest it. Nothing is worked on meanwhile."
	case run.Cancelling:
		return "Somebody asked to stop; the worker has not confirmed yet. A worker that stays silent is given up."
	case run.Succeeded:
		return "The end: what the task asked for exists."
	case run.Failed:
		return "The end: the page names the cause, and whether running it again makes sense."
	case run.Cancelled:
		return "The end: somebody stopped it, for a reason that is kept. Plans, patches and logs stay."
	case run.Expired:
		return "The end: a clock ran out. Everything is kept, and a new run may be started."
	}
	return ""
}

// stateLegend are the signs by whose turn it is.
func stateLegend() []ui.Status {
	return []ui.Status{
		ui.Of("waits for a machine", ui.ToneQueued), ui.Of("a machine works", ui.ToneRunning), ui.Of("waits for a person", ui.ToneWaiting), ui.Of("ended well", ui.ToneDone),
		ui.Of("ended badly", ui.ToneFailed), ui.Of("stopped on request", ui.ToneCancelled), ui.Of("ended by the clock", ui.ToneExpired),
	}
}

// wordsHelp are the words of the pages that have one meaning each.
func wordsHelp() []Option {
	return []Option{
		{Value: "Task", Label: "What should change in one repository, as a person asked for it. It may take several runs."},
		{Value: "Run", Label: "One try to carry out a task, from admission to its end."},
		{Value: "Attempt", Label: "A fresh start within a run, on a clean copy. A repair goes on within its attempt."},
		{Value: "Gate", Label: "A question to people: may this plan, patch or report go on? It shows exactly what the answer is about."},
		{Value: "Revision", Label: "Each new plan or patch that a gate asks about. An approval holds for the revision it was given to and for no other."},
		{Value: "Active time", Label: "From admission on, without the time that the run waited for people."},
	}
}
