package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// leftOut stands in the place of a text of a download that looks as if it held a secret.
const leftOut = "(a line that looks like a secret was left out)"

// unsecret leaves a line out that looks as if it held a secret: workers mask what they know, and a file that is sent on goes further.
func (s *server) unsecret(r *http.Request, line string) (string, error) {
	found, err := s.scanner.InText(r.Context(), line)
	if err != nil || found {
		return leftOut, err
	}
	return line, nil
}

// unsecretLines does so with each line, and with all of them where only together they look like one, such as a key over many lines.
func (s *server) unsecretLines(r *http.Request, lines []string) ([]string, error) {
	var err error
	for i, line := range lines {
		if lines[i], err = s.unsecret(r, line); err != nil {
			return nil, err
		}
	}
	found, err := s.scanner.InText(r.Context(), strings.Join(lines, "\n"))
	if err != nil || found {
		return []string{leftOut}, err
	}
	return lines, nil
}

// unsecretParts leaves out events' payloads and effects' parameters and results that look like a secret as a whole, where no single
// text of theirs does: an option and its value stand in two.
func (s *server) unsecretParts(r *http.Request, doc *runExport) error {
	for i, e := range doc.Events {
		if shown, err := s.unsecret(r, string(e.Payload)); err != nil {
			return err
		} else if shown != string(e.Payload) {
			doc.Events[i].Payload = json.RawMessage(`{"left_out": "It looks as if it held a secret."}`)
		}
	}
	for i := range doc.Effects {
		for _, texts := range []*map[string]string{&doc.Effects[i].Parameters, &doc.Effects[i].Result} {
			raw, err := json.Marshal(*texts)
			if err != nil {
				return fmt.Errorf("encode an effect: %w", err)
			}
			if shown, err := s.unsecret(r, string(raw)); err != nil {
				return err
			} else if shown != string(raw) {
				*texts = map[string]string{"left_out": leftOut}
			}
		}
	}
	return nil
}

// jsonText is a string of a JSON document without white space, with the name of its member before it where it has one.
var jsonText = regexp.MustCompile(`(?:("(?:[^"\\]|\\.)*"):)?("(?:[^"\\]|\\.)*")`)

// textsAtOnce is how many texts are looked at together; only where there is something in them, each is looked at alone.
const textsAtOnce = 64

// withoutSecrets encodes a document and leaves out every text in it that looks as if it held a secret: whatever the field, so that one
// which is added later is looked at, too.
func (s *server) withoutSecrets(ctx context.Context, doc any) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode a download: %w", err)
	}
	notice, err := json.Marshal(leftOut)
	if err != nil {
		return nil, err
	}
	clean, done := []byte{}, 0
	for some := range slices.Chunk(jsonText.FindAllSubmatchIndex(raw, -1), textsAtOnce) {
		secrets, err := s.secretsAmong(ctx, raw, some)
		if err != nil {
			return nil, err
		}
		for _, at := range secrets {
			clean, done = append(append(clean, raw[done:at[0]]...), notice...), at[1]
		}
	}
	return append(clean, raw[done:]...), nil
}

// secretsAmong finds those of the texts that look like a secret, and the names of members that do; both by where they begin and end.
func (s *server) secretsAmong(ctx context.Context, raw []byte, texts [][]int) (secrets [][]int, err error) {
	if found, err := s.scanner.InText(ctx, together(raw, texts)); err != nil || !found {
		return nil, err
	}
	for _, at := range texts {
		found, err := s.scanner.InText(ctx, asRead(raw, at))
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if name := at[2:4]; name[0] >= 0 {
			if found, err = s.scanner.InText(ctx, asRead(raw, []int{name[0], name[1], -1, -1, name[0], name[1]})); err != nil {
				return nil, err
			} else if found {
				secrets = append(secrets, name)
			}
		}
		secrets = append(secrets, at[4:6])
	}
	if len(secrets) == 0 {
		return s.secretsBetween(ctx, raw, texts)
	}
	return secrets, nil
}

// secretsBetween finds a secret that no text holds alone: one says what the next is, as an option and its value do. Where that is not two
// neighbours either, all of the texts are left out.
func (s *server) secretsBetween(ctx context.Context, raw []byte, texts [][]int) (secrets [][]int, err error) {
	for n := range len(texts) - 1 {
		found, err := s.scanner.InText(ctx, together(raw, texts[n:n+2]))
		if err != nil {
			return nil, err
		}
		if found {
			secrets = append(secrets, texts[n+1][4:6])
		}
	}
	if len(secrets) > 0 {
		return secrets, nil
	}
	for _, at := range texts {
		secrets = append(secrets, at[4:6])
	}
	return secrets, nil
}

// together is the part of the document from the first text to the last, and then each as it reads.
func together(raw []byte, texts [][]int) string {
	var all strings.Builder
	all.Write(raw[texts[0][0]:texts[len(texts)-1][1]])
	all.WriteByte('\n')
	for _, at := range texts {
		all.WriteString(asRead(raw, at))
	}
	return all.String()
}

// asRead is a found text as it stands in the document, and name and value as they read without the document's escapes: a line break
// before a secret is two letters there.
func asRead(raw []byte, at []int) string {
	lines := string(raw[at[0]:at[1]]) + "\n"
	for _, part := range [][]int{at[2:4], at[4:6]} {
		var read string
		if part[0] >= 0 && json.Unmarshal(raw[part[0]:part[1]], &read) == nil {
			lines += read + "\n"
		}
	}
	return lines
}
