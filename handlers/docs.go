package handlers

import (
	"net/http"
	"strings"

	"signalbox/api"
	"signalbox/web"
)

const specURL = apiPrefix + "/openapi.yaml"

// getOpenAPI serves the contract itself.
func (s *server) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	w.Header().Set("Cache-Control", "public, no-cache")
	w.WriteHeader(http.StatusOK)
	s.write(w, r, api.OpenAPI)
	return nil
}

// getAPIReference is the contract for readers.
func (s *server) getAPIReference(w http.ResponseWriter, r *http.Request) error {
	return s.render(w, r, http.StatusOK, web.APIReferencePage(reference(s.doc, s.shell(r), s.routeByOperation)))
}

func reference(doc *api.Document, shell web.Shell, routes map[string]route) web.APIReferencePageData {
	data := web.APIReferencePageData{
		Shell: shell, Title: doc.Info.Title, Version: doc.Info.Version, Intro: plain(doc.Info.Description), SpecURL: specURL,
	}
	for _, tag := range doc.Tags {
		group := web.APIGroup{Name: tag.Name, Text: plain(tag.Description)}
		for _, op := range doc.Tagged(tag.Name) {
			group.Operations = append(group.Operations, operation(doc, op, routes[op.OperationID].access))
		}
		data.Groups = append(data.Groups, group)
	}
	for _, name := range doc.Components.Schemas.Keys {
		schema := doc.Components.Schemas.Map[name]
		shown := web.APISchema{Name: name, Text: plain(schema.Description), Fields: fields(doc, schema)}
		if len(schema.Enum) > 0 {
			shown.Text += " One of: " + strings.Join(schema.Enum, ", ") + "."
		}
		data.Schemas = append(data.Schemas, shown)
	}
	return data
}

func operation(doc *api.Document, op *api.Operation, a access) web.APIOperation {
	shown := web.APIOperation{
		ID: op.OperationID, Method: op.Method, Path: apiPrefix + "/v1" + op.Path, Summary: op.Summary, Text: plain(op.Description), Auth: a.words(),
	}
	for _, p := range op.Parameters {
		shown.Parameters = append(shown.Parameters, web.APIField{Name: p.Name, In: p.In, Type: typeWords(p.Schema), Required: p.Required, Text: plain(p.Description)})
	}
	if name := op.BodySchema(); name != "" {
		shown.Body, shown.BodyFields = name, fields(doc, doc.Components.Schemas.Map[name])
	} else if op.RequestBody != nil {
		shown.Raw = true
	}
	for _, code := range op.Responses.Keys {
		res := op.Responses.Map[code]
		answer := web.APIResponse{Status: code, Text: plain(res.Description), Schema: res.SchemaName()}
		if res.Ref != "" {
			answer = web.APIResponse{Status: "otherwise", Text: "What did not happen, why, and the way on.", Schema: "Problem"}
		}
		shown.Responses = append(shown.Responses, answer)
	}
	return shown
}

func fields(doc *api.Document, s api.Schema) []web.APIField {
	var all []web.APIField
	for _, name := range s.Properties.Keys {
		p := s.Properties.Map[name]
		f := web.APIField{Name: name, In: "body", Type: typeWords(p), Text: plain(p.Description)}
		if ref := p.RefName(); ref != "" && f.Text == "" {
			f.Text = plain(doc.Components.Schemas.Map[ref].Description)
		}
		for _, required := range s.Required {
			f.Required = f.Required || required == name
		}
		all = append(all, f)
	}
	return all
}

func typeWords(s api.Schema) string {
	switch {
	case s.RefName() != "":
		return s.RefName()
	case s.Type == "array" && s.Items != nil:
		return "list of " + typeWords(*s.Items)
	case s.Format == "date-time":
		return "time"
	case s.Format == "byte":
		return "base64"
	case s.Format == "binary":
		return "bytes"
	case len(s.Enum) > 0:
		return strings.Join(s.Enum, " | ")
	default:
		return s.Type
	}
}

// plain drops the little Markdown that the contract uses, and the line breaks inside its paragraphs: the page shows text.
func plain(s string) string {
	var paragraphs []string
	for p := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		paragraphs = append(paragraphs, strings.Join(strings.Fields(p), " "))
	}
	return strings.NewReplacer("**", "", "`", "").Replace(strings.Join(paragraphs, "\n\n"))
}
