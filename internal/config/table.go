package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

//go:generate go test -run ^TestConfigurationPage$ . -update

// row is one variable of one section.
type row struct {
	Section, Name, Default, Doc string
	Secret                      bool
	Required                    string
}

func rows() []row {
	var all []row
	for _, section := range []struct {
		name string
		typ  reflect.Type
	}{
		{"Server", reflect.TypeFor[Server]()},
		{"Worker", reflect.TypeFor[Worker]()},
		{"Dev mode", reflect.TypeFor[Dev]()},
		{"Command line", reflect.TypeFor[Client]()},
	} {
		for i := range section.typ.NumField() {
			f := section.typ.Field(i)
			all = append(all, row{
				Section: section.name, Name: f.Tag.Get("env"), Default: f.Tag.Get("default"), Doc: f.Tag.Get("doc"),
				Secret: f.Type == reflect.TypeFor[Secret](), Required: f.Tag.Get("required"),
			})
		}
	}
	return all
}

// Print writes every variable of a section with the value in force, one a line, secrets redacted.
func Print(w io.Writer, section any) error {
	value := reflect.Indirect(reflect.ValueOf(section))
	for i := range value.NumField() {
		if _, err := fmt.Fprintf(w, "%s=%v\n", value.Type().Field(i).Tag.Get("env"), value.Field(i).Interface()); err != nil {
			return fmt.Errorf("print the configuration: %w", err)
		}
	}
	return nil
}

// Page is docs/configuration.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" +
		"Signalbox reads its configuration from the environment, once, at the start. A variable that is set to nothing counts as not set.\n" +
		"A secret may be given in a file instead: put the file's path into the variable of the same name with `_FILE` at its end.\n" +
		"This page is printed from the code (`make generate`).\n")
	section := ""
	for _, r := range rows() {
		if r.Section != section {
			section = r.Section
			fmt.Fprintf(&b, "\n## %s\n\n| variable | default | meaning |\n| --- | --- | --- |\n", section)
		}
		var notes string
		if r.Required != "" {
			notes += " Required."
		}
		if r.Secret {
			notes += " Secret."
		}
		def := ""
		if r.Default != "" {
			def = "`" + r.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s%s |\n", r.Name, def, r.Doc, notes)
	}
	return b.String()
}
