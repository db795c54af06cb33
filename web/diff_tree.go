package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"signalbox/web/ui"
)

// FileFilter chooses files of a patch. It is in the address and changes nothing about what is decided; empty fields choose all.
type FileFilter struct {
	Name   string // part of the path, in whatever case
	Ext    string // ".go", or noExt
	Status string // a status of package patch, or notViewed
}

const (
	noExt     = "none"
	notViewed = "unviewed"
)

func fileFilterOf(q url.Values) FileFilter {
	name := []rune(strings.TrimSpace(q.Get("q")))
	return FileFilter{Name: string(name[:min(len(name), 200)]), Ext: q.Get("ext"), Status: q.Get("status")}
}

func (f FileFilter) set(q url.Values) {
	for name, value := range map[string]string{"q": f.Name, "ext": f.Ext, "status": f.Status} {
		if value != "" {
			q.Set(name, value)
		}
	}
}

func (f FileFilter) chooses(file DiffFile) bool {
	switch {
	case f.Name != "" && !strings.Contains(strings.ToLower(file.Path), strings.ToLower(f.Name)):
		return false
	case f.Ext != "" && f.Ext != extension(file.Path):
		return false
	case f.Status == notViewed:
		return file.Tick == nil || !file.Tick.Viewed
	default:
		return f.Status == "" || f.Status == cmp.Or(file.Status, "modified")
	}
}

func extension(name string) string {
	base := path.Base(name)
	if ext := path.Ext(base); ext != "" && ext != base && ext != "." {
		return strings.ToLower(ext)
	}
	return noExt
}

// FilterView is what the form of the list of files offers.
type FilterView struct {
	Place    DiffPlace
	View     DiffChoice
	Exts     []Option
	Statuses []Option
	Hidden   int // files that the filter leaves out
	All      int // files that could be shown
}

// worthAFilter is how many files a list has that one does not take in at a glance.
const worthAFilter = 5

// filter leaves out what was not asked for, and says what there is to choose from.
func (d *DiffView) filter(o DiffOptions) {
	f := o.View.Files
	if !o.Place.known() || len(d.Files) < worthAFilter && f == (FileFilter{}) {
		return
	}
	v := &FilterView{Place: o.Place, View: o.View, All: len(d.Files)}
	exts, statuses := map[string]int{}, map[string]int{}
	for _, file := range d.Files {
		exts[extension(file.Path)]++
		statuses[cmp.Or(file.Status, "modified")]++
		if d.Ticks != nil && (file.Tick == nil || !file.Tick.Viewed) {
			statuses[notViewed]++
		}
	}
	v.Exts = choices(exts, f.Ext, func(ext string) string {
		if ext == noExt {
			return "no extension"
		}
		return ext
	})
	v.Statuses = choices(statuses, f.Status, func(status string) string {
		if status == notViewed {
			return "not viewed"
		}
		return fileWord(status)
	})
	d.Files = slices.DeleteFunc(d.Files, func(file DiffFile) bool { return !f.chooses(file) })
	v.Hidden = v.All - len(d.Files)
	d.Filter = v
}

// choices are options with how many files each chooses; one that is asked for and chooses none is among them.
func choices(all map[string]int, chosen string, words func(string) string) (list []Option) {
	if chosen != "" {
		all[chosen] += 0
	}
	for _, value := range slices.Sorted(maps.Keys(all)) {
		list = append(list, Option{Value: value, Label: fmt.Sprintf("%s (%d)", words(value), all[value]), Selected: value == chosen})
	}
	return list
}

// kept are the other choices of the page, as fields of the form.
func (v FilterView) kept() (list []Option) {
	all := v.View.fields()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, Option{Label: name, Value: all.Get(name)})
	}
	return list
}

// everything is the page with all files.
func (v FilterView) everything() string {
	all := v.View
	all.Files = FileFilter{}
	return v.Place.DiffURL(all)
}

// notice counts what the filter leaves out.
func (v FilterView) notice() string {
	return fmt.Sprintf("%s hidden by the filter.", ui.Count(v.Hidden, "file is", "files are"))
}

// folder is the files of a patch that lie in one directory.
type folder struct {
	name  string // with a slash at its end; empty for the top
	files []DiffFile
}

// folders are the directories of the files, in the order of the patch.
func folders(files []DiffFile) (all []folder) {
	at := map[string]int{}
	for _, f := range files {
		name, _ := path.Split(f.Path)
		i, ok := at[name]
		if !ok {
			i = len(all)
			at[name], all = i, append(all, folder{name: name})
		}
		all[i].files = append(all[i].files, f)
	}
	return all
}
