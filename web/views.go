package web

// SavedViews are a person's own sets of filters of a list, and what it takes to save the one that is shown.
type SavedViews struct {
	List  string // runs or tasks
	Query string // filters of the page; empty: none, so there is nothing to save
	Mine  []SavedView
}

// SavedView is one of them.
type SavedView struct {
	Name string
	Href string
	Here bool // its filters are those of the page
}

// saved reports whether what the page shows has a name already.
func (v SavedViews) saved() bool {
	for _, m := range v.Mine {
		if m.Here {
			return true
		}
	}
	return false
}

// taskViews are the built-in views of the tasks' list as addresses.
func taskViews(d TasksPageData) []Option {
	all := []Option{{Label: "All", Value: TasksURL}, {Label: "Mine", Value: TasksURL + "?mine=1"}}
	for _, v := range []struct{ label, state string }{
		{"Waiting on people", "WAITING_FOR_APPROVAL"}, {"Under way", "RUNNING"}, {"Failed", "FAILED"},
	} {
		all = append(all, Option{Label: v.label, Value: TasksURL + "?state=" + v.state})
	}
	for i := range all {
		all[i].Selected = all[i].Value == d.here()
	}
	return all
}

// here is the address of the list under its filters.
func (d TasksPageData) here() string {
	if d.Views.Query == "" {
		return TasksURL
	}
	return TasksURL + "?" + d.Views.Query
}
