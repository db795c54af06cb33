package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Document is the contract as a value: what the reference page shows, what the server checks bodies with,
// and what a test compares the routes with.
type Document struct {
	Info struct {
		Title       string `yaml:"title"`
		Version     string `yaml:"version"`
		Description string `yaml:"description"`
	} `yaml:"info"`
	Servers []struct {
		URL string `yaml:"url"`
	} `yaml:"servers"`
	Tags       []Tag                       `yaml:"tags"`
	Paths      Ordered[Ordered[Operation]] `yaml:"paths"`
	Components struct {
		Parameters map[string]Parameter `yaml:"parameters"`
		Schemas    Ordered[Schema]      `yaml:"schemas"`
	} `yaml:"components"`

	operations map[string]*Operation
}

// Tag groups operations on the reference page.
type Tag struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
}

// Operation is one method on one path. Method and Path are filled while parsing; parameters are resolved.
type Operation struct {
	Method      string `yaml:"-"`
	Path        string `yaml:"-"`
	OperationID string `yaml:"operationId"`
	// Security is nil where the document's default (a bearer token) holds; empty where no token is needed.
	Security    *[]map[string][]string `yaml:"security"`
	Tags        []string               `yaml:"tags"`
	Summary     string                 `yaml:"summary"`
	Description string                 `yaml:"description"`
	Parameters  []Parameter            `yaml:"parameters"`
	RequestBody *struct {
		Required bool             `yaml:"required"`
		Content  map[string]Media `yaml:"content"`
	} `yaml:"requestBody"`
	Responses Ordered[Response] `yaml:"responses"`
}

// BodySchema is the schema of the JSON body, "" where the operation takes none.
func (o Operation) BodySchema() string {
	if o.RequestBody == nil {
		return ""
	}
	return strings.TrimPrefix(o.RequestBody.Content["application/json"].Schema.Ref, schemaPrefix)
}

// Parameter is one value in path, query or header.
type Parameter struct {
	Ref         string `yaml:"$ref"`
	Name        string `yaml:"name"`
	In          string `yaml:"in"`
	Required    bool   `yaml:"required"`
	Description string `yaml:"description"`
	Schema      Schema `yaml:"schema"`
}

// Response is one documented answer.
type Response struct {
	Ref         string           `yaml:"$ref"`
	Description string           `yaml:"description"`
	Content     map[string]Media `yaml:"content"`
}

// SchemaName is the schema of the JSON answer, "" where there is none.
func (r Response) SchemaName() string {
	return strings.TrimPrefix(r.Content["application/json"].Schema.Ref, schemaPrefix)
}

// Media is a body of one content type.
type Media struct {
	Schema Schema `yaml:"schema"`
}

// Schema is the part of a JSON schema that the contract uses; Check refuses to know more.
type Schema struct {
	Ref         string          `yaml:"$ref"`
	AllOf       []Schema        `yaml:"allOf"`
	Type        string          `yaml:"type"`
	Format      string          `yaml:"format"`
	Description string          `yaml:"description"`
	Enum        []string        `yaml:"enum"`
	Default     any             `yaml:"default"`
	Required    []string        `yaml:"required"`
	Properties  Ordered[Schema] `yaml:"properties"`
	// Additional is nil where only the named members are allowed.
	Additional *Additional `yaml:"additionalProperties"`
	Items      *Schema     `yaml:"items"`
	MinLength  *int        `yaml:"minLength"`
	MaxLength  *int        `yaml:"maxLength"`
	MinItems   *int        `yaml:"minItems"`
	MaxItems   *int        `yaml:"maxItems"`
	Minimum    *float64    `yaml:"minimum"`
	Maximum    *float64    `yaml:"maximum"`
	Pattern    string      `yaml:"pattern"`
}

// RefName is the name of the schema that s points to, "" where it points nowhere.
func (s Schema) RefName() string {
	if s.Ref == "" && len(s.AllOf) == 1 {
		return s.AllOf[0].RefName()
	}
	return strings.TrimPrefix(s.Ref, schemaPrefix)
}

// Additional is the schema of members that are not named; Any allows every value.
type Additional struct {
	Any    bool
	Schema Schema
}

// UnmarshalYAML reads `true` or a schema.
func (a *Additional) UnmarshalYAML(unmarshal func(any) error) error {
	var yes bool
	if err := unmarshal(&yes); err == nil {
		a.Any = yes
		return nil
	}
	return unmarshal(&a.Schema)
}

// Ordered is a mapping that keeps the order of the document, for the reader's sake.
type Ordered[T any] struct {
	Keys []string
	Map  map[string]T
}

// UnmarshalYAML reads the mapping once for its order and once for its values.
func (o *Ordered[T]) UnmarshalYAML(unmarshal func(any) error) error {
	var order yaml.MapSlice
	if err := unmarshal(&order); err != nil {
		return err
	}
	for _, item := range order {
		o.Keys = append(o.Keys, fmt.Sprint(item.Key))
	}
	return unmarshal(&o.Map)
}

const (
	schemaPrefix    = "#/components/schemas/"
	parameterPrefix = "#/components/parameters/"
)

// Parse reads the embedded document. An error means that the binary was built from a broken one.
func Parse() (*Document, error) {
	doc := &Document{operations: map[string]*Operation{}}
	if err := yaml.Unmarshal(OpenAPI, doc); err != nil {
		return nil, fmt.Errorf("parse openapi.yaml: %w", err)
	}
	for _, path := range doc.Paths.Keys {
		for _, method := range doc.Paths.Map[path].Keys {
			op := doc.Paths.Map[path].Map[method]
			op.Method, op.Path = strings.ToUpper(method), path
			for i, p := range op.Parameters {
				if p.Ref != "" {
					known, ok := doc.Components.Parameters[strings.TrimPrefix(p.Ref, parameterPrefix)]
					if !ok {
						return nil, fmt.Errorf("parse openapi.yaml: %s names %s, which does not exist", op.OperationID, p.Ref)
					}
					op.Parameters[i] = known
				}
			}
			if _, twice := doc.operations[op.OperationID]; twice || op.OperationID == "" {
				return nil, fmt.Errorf("parse openapi.yaml: operation id %q of %s is missing or used twice", op.OperationID, path)
			}
			doc.operations[op.OperationID] = &op
		}
	}
	return doc, nil
}

// Operation finds an operation by its id.
func (d *Document) Operation(id string) (*Operation, bool) {
	op, ok := d.operations[id]
	return op, ok
}

// Operations lists all operations in the order of the document.
func (d *Document) Operations() []*Operation {
	var all []*Operation
	for _, path := range d.Paths.Keys {
		for _, method := range d.Paths.Map[path].Keys {
			all = append(all, d.operations[d.Paths.Map[path].Map[method].OperationID])
		}
	}
	return all
}

// Tagged lists the operations of one tag in the order of the document.
func (d *Document) Tagged(tag string) []*Operation {
	return slices.DeleteFunc(d.Operations(), func(op *Operation) bool { return !slices.Contains(op.Tags, tag) })
}
