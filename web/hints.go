package web

// Hint is a newcomer's next step, shown until it was taken or the reader puts it away.
type Hint struct {
	Name   string // repository, worker, task or gate
	Server string // address of this server, for the commands that start a worker
}

// hintTitle says what is missing, or for a gate what is about to be done for the first time.
func hintTitle(h Hint) string {
	return map[string]string{
		"repository": "No repository is registered yet.",
		"worker":     "No worker has connected yet.",
		"task":       "No task was submitted yet.",
		"gate":       "Your first decision.",
	}[h.Name]
}

// workerCommands start a worker on another machine.
func workerCommands(h Hint) string {
	return "signalbox worker-credential enrol build-1\nSIGNALBOX_SERVER_URL=" + h.Server + " SIGNALBOX_WORKER_ENROLMENT=sbe_… signalbox-worker"
}
