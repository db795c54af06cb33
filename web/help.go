package web

// KeysPageData is the page of keys.
type KeysPageData struct {
	Shell Shell
}

// shortcut is a key, or two one after the other, and what it does.
type shortcut struct {
	Keys []string
	Does string
}

// shortcuts are what keys.js knows. Where a key follows a link, the link carries it as data-key.
func shortcuts() []shortcut {
	return []shortcut{
		{[]string{"?"}, "Show these keys"},
		{[]string{"/"}, "Search on this page"},
		{[]string{"j"}, "Next row of a list or a timeline"},
		{[]string{"k"}, "Row before"},
		{[]string{"Enter"}, "Open the row"},
		{[]string{"x"}, "Select the row, or take it out again"},
		{[]string{"c"}, "New task"},
		{[]string{"g", "i"}, "My turn"},
		{[]string{"g", "t"}, "Tasks"},
		{[]string{"g", "r"}, "Runs"},
		{[]string{"g", "p"}, "Repositories"},
		{[]string{"g", "w"}, "Workers"},
		{[]string{"J"}, "In a log: one more line, down; K goes up"},
		{[]string{"y"}, "In a log: copy the address of what is selected"},
		{[]string{"n"}, "In a log: next hits of the search; p goes back"},
		{[]string{"Esc"}, "Close a menu or a dialog"},
	}
}
