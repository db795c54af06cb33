package main

import (
	"bytes"
	"debug/buildinfo"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// S17: the bill of materials is CycloneDX 1.6, the same for the same programs, and lists every module in them with version and sum.
func TestBillOfMaterials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", dir+"/", "signalbox/cmd/signalbox-worker", "signalbox/internal/sbom")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	programs := []string{filepath.Join(dir, "signalbox-worker"), filepath.Join(dir, "sbom")}
	var first, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &again} {
		if err := write(w, programs); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), again.Bytes()) || bytes.Contains(first.Bytes(), []byte(dir)) {
		t.Error("two runs give other bytes, or know the folder")
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(&first, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.SpecVersion != cdx.SpecVersion1_6 || bom.Components == nil || bom.Dependencies == nil {
		t.Fatalf("it is %s %s", bom.BOMFormat, bom.SpecVersion)
	}
	known := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		if _, twice := known[c.BOMRef]; twice || c.Name == "" {
			t.Errorf("%q is there twice, or has no name", c.BOMRef)
		}
		known[c.BOMRef] = c
	}
	needs := map[string][]string{}
	for _, d := range *bom.Dependencies {
		if _, there := known[d.Ref]; !there {
			t.Errorf("%q needs something and is no component", d.Ref)
		}
		if d.Dependencies != nil {
			needs[d.Ref] = *d.Dependencies
		}
	}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if app := known[info.Path]; app.Type != cdx.ComponentTypeApplication || len(needs[info.Path]) != len(info.Deps)+1 {
			t.Errorf("%s is %+v with %d modules, and has %d and a standard library", info.Path, app, len(needs[info.Path]), len(info.Deps))
		}
		for _, m := range info.Deps {
			ref := library(m.Path, m.Version, "").BOMRef
			c := known[ref]
			if c.Name != m.Path || c.Version != m.Version || c.PackageURL != ref || c.Properties == nil || (*c.Properties)[0].Value != m.Sum || !slices.Contains(needs[info.Path], ref) {
				t.Errorf("%s in %s is listed as %+v", m.Path, info.Path, c)
			}
		}
	}
	if err := write(&first, nil); err == nil {
		t.Error("no program is a bill of materials")
	}
	if err := write(&first, []string{"main_test.go"}); err == nil {
		t.Error("a text is a program")
	}
}
