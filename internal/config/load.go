package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/money"
)

// fileSuffix makes of a secret's variable the one that names a file with the secret in it.
const fileSuffix = "_FILE"

// load fills the struct behind target from its tags and answers every problem, each with the variable's name.
func load(target any, command string, lookup func(string) (string, bool)) error {
	var problems []error
	value := reflect.ValueOf(target).Elem()
	for i := range value.NumField() {
		if err := loadField(value.Field(i), value.Type().Field(i).Tag, command, lookup); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func loadField(field reflect.Value, tag reflect.StructTag, command string, lookup func(string) (string, bool)) error {
	name := tag.Get("env")
	text, set := lookup(name)
	if field.Type() == reflect.TypeFor[Secret]() {
		var err error
		if text, set, err = secretText(name, text, set, lookup); err != nil {
			return err
		}
	}
	// Set to nothing means not set, as everywhere in shells and compose files.
	if !set || text == "" {
		text = tag.Get("default")
	}
	if text == "" {
		if need := tag.Get("required"); need != "" && need == command {
			if field.Type() == reflect.TypeFor[Secret]() {
				return fmt.Errorf("%s is not set (nor %s%s): %s", name, name, fileSuffix, tag.Get("doc"))
			}
			return fmt.Errorf("%s is not set: %s", name, tag.Get("doc"))
		}
		return nil
	}
	if err := parse(field, text, tag); err != nil {
		if field.Type() == reflect.TypeFor[Secret]() {
			return fmt.Errorf("%s: %w", name, err)
		}
		return fmt.Errorf("%s is %q: %w", name, text, err)
	}
	return nil
}

func secretText(name, text string, set bool, lookup func(string) (string, bool)) (string, bool, error) {
	path, fileSet := lookup(name + fileSuffix)
	if !fileSet || path == "" {
		return text, set, nil
	}
	if set && text != "" {
		return "", false, fmt.Errorf("%s and %s%s are both set: keep one", name, name, fileSuffix)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", false, fmt.Errorf("%s%s: %w", name, fileSuffix, err)
	}
	text = strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", false, fmt.Errorf("%s%s names %s, which is empty", name, fileSuffix, path)
	}
	return text, true, nil
}

func parse(field reflect.Value, text string, tag reflect.StructTag) error {
	switch v := field.Addr().Interface().(type) {
	case *string:
		if allowed := strings.Fields(tag.Get("oneof")); len(allowed) > 0 && !slices.Contains(allowed, text) {
			return fmt.Errorf("want one of %s", strings.Join(allowed, ", "))
		}
		*v = text
	case *money.Currency:
		c, err := money.ParseCurrency(text)
		if err != nil {
			return err
		}
		*v = c
	case *Secret:
		*v = NewSecret(text)
	case *[]string:
		allowed := strings.Fields(tag.Get("each"))
		for item := range strings.SplitSeq(text, ",") {
			item = strings.TrimSpace(item)
			if len(allowed) > 0 && !slices.Contains(allowed, item) {
				return fmt.Errorf("%q is not one of %s", item, strings.Join(allowed, ", "))
			}
			*v = append(*v, item)
		}
	case *[]netip.Prefix:
		for item := range strings.SplitSeq(text, ",") {
			prefix, err := netip.ParsePrefix(strings.TrimSpace(item))
			if err != nil {
				return errors.New("want networks such as 10.0.0.0/8 or 192.0.2.7/32, separated by commas")
			}
			*v = append(*v, prefix.Masked())
		}
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("want a length of time such as 500ms, 30s or 10m")
		}
		low, err := time.ParseDuration(cmp.Or(tag.Get("min"), "0s"))
		if err != nil || d < low {
			return fmt.Errorf("want at least %s", tag.Get("min"))
		}
		*v = d
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("want a whole number")
		}
		if low, err := strconv.Atoi(cmp.Or(tag.Get("min"), "0")); err != nil || n < low {
			return fmt.Errorf("want at least %s", tag.Get("min"))
		}
		*v = n
	case *float64:
		f, err := strconv.ParseFloat(text, 64)
		// The form !(f >= 0) also refuses NaN.
		if err != nil || !(f >= 0) {
			return errors.New("want a number that is not negative")
		}
		*v = f
	case *slog.Level:
		if err := v.UnmarshalText([]byte(text)); err != nil {
			return errors.New("want DEBUG, INFO, WARN or ERROR")
		}
	default:
		return fmt.Errorf("the field has type %s, which config cannot read", field.Type())
	}
	return nil
}

// Unknown answers the SIGNALBOX_* names in environ (os.Environ's form) that no section knows, sorted: most likely
// misspelt, and worth a warning because they have no effect.
func Unknown(environ []string) []string {
	known := map[string]bool{}
	for _, row := range rows() {
		known[row.Name] = true
		if row.Secret {
			known[row.Name+fileSuffix] = true
		}
	}
	var unknown []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "SIGNALBOX_") && !strings.HasPrefix(name, "SIGNALBOX_TEST_") && !known[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}
