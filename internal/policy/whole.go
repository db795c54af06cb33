package policy

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// whole finds the fields for whole numbers that hold something else. The YAML library would take it: it cuts 1.5 to 1, reads
// "5" and 1e3 as numbers, and 010 as 8. t is the type that the node is for.
func (c *checker) whole(n ast.Node, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if key := keyOf(v); memberOf(t, key) != nil {
				c.whole(v.Value, memberOf(t, key), strings.TrimPrefix(path+"."+key, "."))
			}
		}
	case *ast.SequenceNode:
		for i, v := range n.Values {
			if t.Kind() == reflect.Slice {
				c.whole(v, t.Elem(), fmt.Sprintf("%s.%d", path, i))
			}
		}
	default:
		if t != reflect.TypeFor[int]() && t != reflect.TypeFor[int64]() {
			return
		}
		if _, ok := n.(*ast.IntegerNode); !ok || !wholeShape().MatchString(n.GetToken().Value) {
			c.problems = append(c.problems, Problem{Line: lineOf(n), Path: path, Words: n.String() + " is not a whole number such as 3"})
		}
	}
}

func wholeShape() *regexp.Regexp { return regexp.MustCompile(`^[-+]?(0|[1-9][0-9_]*)$`) }

// memberOf is the type of a struct's or map's member, or nil where there is none of the name.
func memberOf(t reflect.Type, name string) reflect.Type {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
		for f := range t.Fields() {
			if f.Tag.Get("yaml") == name {
				return f.Type
			}
		}
	}
	return nil
}
