package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"signalbox/internal/wire"
	"signalbox/web"
)

type runLogsCmd struct {
	Run_   string `arg:"" name:"run" help:"Run id."`
	Step   string `help:"Only what this step printed: its id, or its name, of which the newest counts."`
	Follow bool   `short:"f" help:"Go on until the step or the run has ended."`
	Raw    bool   `help:"Print the bytes as they are; they may hold control characters."`
}

func (c runLogsCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	params := wire.ReadRunLogsParams{After: new(int64), Limit: new(100)}
	if c.Step != "" {
		step, err := stepOf(ctx, client, c.Run_, c.Step)
		if err != nil {
			return err
		}
		params.StepId = &step.Id
	}
	out := &logPrinter{out: t.Out, raw: c.Raw}
	defer func() { _ = out.flush() }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ended := !c.Follow; ; {
		if err := out.rest(ctx, client, c.Run_, &params); err != nil || ended {
			return err
		}
		// What was printed before the end was seen is read once more.
		if ended, err = c.ended(ctx, client, params.StepId); err != nil || ended {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// ended reports whether nothing more will be printed.
func (c runLogsCmd) ended(ctx context.Context, client *wire.ClientWithResponses, step *string) (bool, error) {
	if step != nil {
		s, err := stepOf(ctx, client, c.Run_, *step)
		if err != nil || !s.FinishedAt.IsZero() {
			return err == nil, err
		}
	}
	res, err := client.GetRunWithResponse(ctx, c.Run_)
	if err != nil {
		return false, err
	}
	if res.JSON200 == nil {
		return false, refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return !res.JSON200.FinishedAt.IsZero(), nil
}

// stepOf finds a step of a run by its id, or the newest of a name.
func stepOf(ctx context.Context, client *wire.ClientWithResponses, run, wanted string) (found wire.Step, err error) {
	params := wire.ListRunStepsParams{Limit: new(200)}
	for {
		res, err := client.ListRunStepsWithResponse(ctx, run, &params)
		if err != nil {
			return found, err
		}
		if res.JSON200 == nil {
			return found, refused(res.Status(), res.ApplicationproblemJSONDefault)
		}
		for _, s := range res.JSON200.Items {
			if s.Id == wanted || s.Name == wanted {
				found = s
			}
		}
		if res.JSON200.NextCursor == "" {
			break
		}
		params.Cursor = &res.JSON200.NextCursor
	}
	if found.Id == "" {
		return found, fmt.Errorf("nothing was printed: the run has no step %q; its page lists them", wanted)
	}
	return found, nil
}

// logPrinter writes a log that arrives in chunks. A line is made harmless for the terminal as a whole.
type logPrinter struct {
	out  io.Writer
	raw  bool
	held []byte // of the line that has not ended
}

// longestHeld is how much of a line waits for its end, in bytes.
const longestHeld = 32 << 10

// rest prints everything after the position in params and moves it.
func (p *logPrinter) rest(ctx context.Context, client *wire.ClientWithResponses, run string, params *wire.ReadRunLogsParams) error {
	for {
		res, err := client.ReadRunLogsWithResponse(ctx, run, params)
		if err != nil {
			return err
		}
		if res.JSON200 == nil {
			return refused(res.Status(), res.ApplicationproblemJSONDefault)
		}
		for _, chunk := range res.JSON200.Items {
			*params.After = chunk.Id
			if err := p.print(chunk.Data); err != nil {
				return err
			}
		}
		if len(res.JSON200.Items) < *params.Limit {
			return nil
		}
	}
}

func (p *logPrinter) print(data []byte) error {
	if p.raw {
		_, err := p.out.Write(data)
		return err
	}
	p.held = append(p.held, data...)
	for {
		line, rest, ended := bytes.Cut(p.held, []byte{'\n'})
		if !ended {
			break
		}
		if _, err := io.WriteString(p.out, harmless(string(line))+"\n"); err != nil {
			return err
		}
		p.held = rest
	}
	if len(p.held) < longestHeld {
		return nil
	}
	return p.flush()
}

// flush prints what has no end yet.
func (p *logPrinter) flush() error {
	_, err := io.WriteString(p.out, harmless(string(p.held)))
	p.held = nil
	return err
}

// harmless drops colours and other sequences of a line and shows what a terminal would act upon.
func harmless(line string) string {
	var b strings.Builder
	for len(line) > longestHeld {
		b.WriteString(safe(web.PlainLine(line[:longestHeld])))
		line = line[longestHeld:]
	}
	b.WriteString(safe(web.PlainLine(line)))
	return b.String()
}
