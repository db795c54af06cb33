// Command sbom writes the software bill of materials of programs: CycloneDX 1.6 as JSON, read from what the Go compiler
// left in each program, so that it lists what is inside and not what a source tree could lead to. It owns the form of that
// document and refuses to ask anybody else. The same programs give the same bytes: there is no time and no serial number.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := write(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// write lists the programs at these paths.
func write(w io.Writer, programs []string) error {
	if len(programs) == 0 {
		return errors.New("nothing was written: name the programs")
	}
	var all []*debug.BuildInfo
	for _, name := range programs {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return fmt.Errorf("nothing was written: read what is in the program: %w", err)
		}
		all = append(all, info)
	}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(document(all), cdx.SpecVersion1_6)
}

// document has a component for each program, each module in one of them, and the standard library each was built with.
func document(programs []*debug.BuildInfo) *cdx.BOM {
	parts := map[string]cdx.Component{}
	needs := map[string][]string{}
	for _, p := range programs {
		app := cdx.Component{BOMRef: p.Path, Type: cdx.ComponentTypeApplication, Name: path.Base(p.Path)}
		parts[app.BOMRef] = app
		in := []cdx.Component{library("std", strings.TrimPrefix(p.GoVersion, "go"), "")}
		for _, m := range p.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			in = append(in, library(m.Path, m.Version, m.Sum))
		}
		for _, c := range in {
			parts[c.BOMRef] = c
			needs[app.BOMRef] = append(needs[app.BOMRef], c.BOMRef)
		}
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{BOMRef: "signalbox", Type: cdx.ComponentTypeApplication, Name: "signalbox"}}
	var components []cdx.Component
	var dependencies []cdx.Dependency
	for _, c := range parts {
		components = append(components, c)
		dependency := cdx.Dependency{Ref: c.BOMRef}
		if on := slices.Compact(slices.Sorted(slices.Values(needs[c.BOMRef]))); len(on) > 0 {
			dependency.Dependencies = &on
		}
		dependencies = append(dependencies, dependency)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	slices.SortFunc(dependencies, func(a, b cdx.Dependency) int { return cmp.Compare(a.Ref, b.Ref) })
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom
}

// library is a Go module. Its sum is the one of go.sum, which is over the names and hashes of its files: no hash of a file,
// which is what CycloneDX means by a hash.
func library(name, version, sum string) cdx.Component {
	purl := "pkg:golang/" + name + "@" + url.QueryEscape(version)
	c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
