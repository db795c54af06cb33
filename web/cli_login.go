package web

// CLILoginPageData asks a signed-in person whether a command line may act for them.
type CLILoginPageData struct {
	Shell
	Machine   string // name that the command line gave; a label
	Port      int    // of this machine, where the command waits
	State     string
	Challenge string
}

// CLILoginURL is the page, and takes its POST.
const CLILoginURL = "/cli-login"
