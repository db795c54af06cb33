package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Violation is one way in which a value differs from the contract.
type Violation struct {
	// Field is the dotted path of the member, "" for the value itself.
	Field string
	// Message is a sentence for people.
	Message string
}

// maxViolations bounds the answer to a hostile body.
const maxViolations = 20

// Check compares a decoded JSON value (with json.Number for numbers) with a schema of the document. It answers
// every violation, in the order of their fields, at most twenty. Members that the schema does not name are violations.
func (d *Document) Check(schema string, value any) []Violation {
	c := checker{doc: d}
	s, ok := d.Components.Schemas.Map[schema]
	if !ok {
		return []Violation{{"", "The server does not know what this request should look like."}}
	}
	c.check("", s, value)
	slices.SortStableFunc(c.found, func(a, b Violation) int { return cmp.Compare(a.Field, b.Field) })
	return c.found[:min(len(c.found), maxViolations)]
}

type checker struct {
	doc   *Document
	found []Violation
}

func (c *checker) say(field, format string, args ...any) {
	if len(c.found) < 4*maxViolations {
		c.found = append(c.found, Violation{field, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) check(field string, s Schema, v any) {
	if name := s.RefName(); name != "" {
		s = c.doc.Components.Schemas.Map[name]
	}
	switch s.Type {
	case "object":
		c.object(field, s, v)
	case "array":
		c.array(field, s, v)
	case "string":
		c.text(field, s, v)
	case "integer", "number":
		c.number(field, s, v)
	case "boolean":
		if _, ok := v.(bool); !ok {
			c.say(field, "This must be true or false.")
		}
	}
}

func (c *checker) object(field string, s Schema, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		c.say(field, "This must be an object.")
		return
	}
	for _, name := range s.Required {
		if _, ok := m[name]; !ok {
			c.say(join(field, name), "This is missing.")
		}
	}
	for name, member := range m {
		p, named := s.Properties.Map[name]
		switch {
		case named:
			c.check(join(field, name), p, member)
		case s.Additional == nil:
			c.say(join(field, clip(name)), "This is not a known field.")
		case !s.Additional.Any:
			c.check(join(field, clip(name)), s.Additional.Schema, member)
		}
	}
}

func (c *checker) array(field string, s Schema, v any) {
	list, ok := v.([]any)
	if !ok {
		c.say(field, "This must be a list.")
		return
	}
	if s.MinItems != nil && len(list) < *s.MinItems {
		c.say(field, "At least %d needed, %d given.", *s.MinItems, len(list))
	}
	if s.MaxItems != nil && len(list) > *s.MaxItems {
		c.say(field, "At most %d allowed, %d given.", *s.MaxItems, len(list))
		return
	}
	for i, item := range list {
		c.check(join(field, fmt.Sprint(i)), *s.Items, item)
	}
}

func (c *checker) text(field string, s Schema, v any) {
	t, ok := v.(string)
	if !ok {
		c.say(field, "This must be a text.")
		return
	}
	n := utf8.RuneCountInString(t)
	switch {
	case strings.ContainsRune(t, 0):
		c.say(field, "This must not hold a NUL character.")
	case s.MinLength != nil && n < *s.MinLength && n == 0:
		c.say(field, "This must not be empty.")
	case s.MinLength != nil && n < *s.MinLength:
		c.say(field, "At least %d characters needed, %d given.", *s.MinLength, n)
	case s.MaxLength != nil && n > *s.MaxLength:
		c.say(field, "At most %d characters allowed, %d given.", *s.MaxLength, n)
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, t):
		c.say(field, "This must be one of: %s.", strings.Join(s.Enum, ", "))
	case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(t):
		c.say(field, "This must match %s.", s.Pattern)
	case s.Format == "date-time":
		if _, err := time.Parse(time.RFC3339Nano, t); err != nil {
			c.say(field, "This must be a time such as 2026-11-29T14:02:00Z.")
		}
	}
}

func (c *checker) number(field string, s Schema, v any) {
	n, ok := v.(json.Number)
	if !ok {
		c.say(field, "This must be a number.")
		return
	}
	if s.Type == "integer" {
		if _, err := n.Int64(); err != nil {
			c.say(field, "This must be a whole number.")
			return
		}
	}
	f, err := n.Float64()
	switch {
	case err != nil:
		c.say(field, "This must be a number.")
	case s.Minimum != nil && f < *s.Minimum:
		c.say(field, "This must be at least %v.", *s.Minimum)
	case s.Maximum != nil && f > *s.Maximum:
		c.say(field, "This must be at most %v.", *s.Maximum)
	}
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// clip shortens names that came from outside.
func clip(name string) string {
	if len(name) > 60 {
		return strings.ToValidUTF8(name[:60], "") + "…"
	}
	return name
}
