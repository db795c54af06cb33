package main

import (
	"context"
	"fmt"
	"io"

	"signalbox/internal/wire"
)

type taskCmd struct {
	Submit  taskSubmitCmd  `cmd:"" help:"Ask for a change."`
	Preview taskPreviewCmd `cmd:"" help:"Show what would become of a change, without asking for it; takes the flags of submit."`
	List    taskListCmd    `cmd:"" help:"List tasks, newest first."`
	Show    taskShowCmd    `cmd:"" help:"Show one task."`
	Cancel  taskCancelCmd  `cmd:"" help:"Cancel a task and its active run."`
	Run     taskRunCmd     `cmd:"" help:"Submit a draft, or run a task again."`
	Close   taskCloseCmd   `cmd:"" help:"Give up a task that waits to be run again."`
}

// change are the flags that say what is asked for.
type change struct {
	remote
	Repository  string   `required:"" help:"Repository id or name."`
	Title       string   `required:"" help:"One line."`
	Goal        string   `required:"" help:"What should be true afterwards; - reads standard input."`
	BaseRef     string   `help:"Branch, tag or commit to start from; the default branch where not given."`
	Mode        string   `help:"What completes the task: pr_created, pr_merged, patch_ready_for_review or analysis_report_created." default:"pr_created"`
	Risk        string   `help:"LOW, MEDIUM, HIGH or CRITICAL." default:"LOW"`
	Scope       []string `help:"Glob of paths that may change, such as 'src/**'; may be repeated." sep:"none"`
	Forbidden   []string `help:"Glob of paths that must not change; may be repeated." sep:"none"`
	PlanGate    bool     `help:"Ask a person to approve the plan."`
	AutoPR      bool     `name:"auto-pr" help:"Allow a pull request without a person where policy agrees."`
	Attestation bool     `help:"Ask for an attestation by somebody else."`
	Agent       string   `help:"Agent profile of the workers' configuration; the one named default where not given."`
	Priority    int      `help:"Order among the work of your tenant, from -5 to 5; 0 is ordinary."`
	Requires    []string `help:"What workers must offer, such as 'jdk >= 21'; may be repeated." sep:"none"`
}

// body is what the API is asked; it reads the goal and finds the repository.
func (c change) body(ctx context.Context, t terminal, client *wire.ClientWithResponses) (wire.TaskCreate, error) {
	goal, err := argument(t, c.Goal)
	if err != nil {
		return wire.TaskCreate{}, err
	}
	repository, err := findRepository(ctx, client, c.Repository)
	if err != nil {
		return wire.TaskCreate{}, err
	}
	return wire.TaskCreate{
		RepositoryId: repository, Title: c.Title, Goal: goal, BaseRef: c.BaseRef, Mode: wire.CompletionMode(c.Mode), Risk: wire.Risk(c.Risk),
		Scope: c.Scope, Forbidden: c.Forbidden, PlanGate: c.PlanGate, AutoPr: c.AutoPR, Attestation: c.Attestation, AgentProfile: c.Agent, Priority: c.Priority, Requires: c.Requires,
	}, nil
}

type taskSubmitCmd struct {
	change
	Draft bool   `help:"Store without submitting; signalbox task run submits it."`
	Key   string `help:"Idempotency key; give the same one to repeat a command whose answer was lost."`
	Wait  bool   `help:"Wait until the run needs a person or has ended."`
}

func (c taskSubmitCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	body, err := c.body(ctx, t, client)
	if err != nil {
		return err
	}
	body.Draft = c.Draft
	if c.Key == "" {
		c.Key = key()
	}
	res, err := client.CreateTaskWithResponse(ctx, &wire.CreateTaskParams{IdempotencyKey: c.Key}, body)
	if err != nil {
		return fmt.Errorf("the server did not answer, so it is not known whether the task was stored; repeat with --key %s: %w", c.Key, err)
	}
	if res.JSON201 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	task := *res.JSON201
	if err := c.show(t.Out, task, func(w io.Writer) { showTask(w, task, address) }); err != nil {
		return err
	}
	if c.Wait && task.ActiveRunId != "" {
		return follow(ctx, client, t, task.ActiveRunId, 0, true)
	}
	return nil
}

func showTask(w io.Writer, task wire.Task, address string) {
	line(w, "task", task.Id)
	line(w, "title", task.Title)
	line(w, "state", string(task.State))
	if task.CancelRequested && task.ActiveRunId != "" {
		line(w, "", "A cancel was requested; the active run is being stopped.")
	}
	if task.Reason != "" {
		line(w, "reason", task.Reason)
	}
	line(w, "repository", task.RepositoryName)
	line(w, "mode", string(task.Contract.Mode))
	line(w, "risk", string(task.Contract.Risk))
	if task.RequestedBy != nil {
		line(w, "asked by", task.RequestedBy.Name)
	}
	if task.ActiveRunId != "" {
		line(w, "run", task.ActiveRunId)
	}
	line(w, "runs", fmt.Sprintf("%d of %d", task.RunsUsed, task.MaxRuns))
	line(w, "created", when(task.CreatedAt))
	line(w, "page", address+"/tasks/"+task.Id)
}

type taskListCmd struct {
	remote
	State  string `help:"Only tasks in this state."`
	Mine   bool   `help:"Only tasks that you asked for."`
	Limit  int    `help:"At most so many." default:"50"`
	Cursor string `help:"Go on where a list ended."`
}

func (c taskListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	params := wire.ListTasksParams{Limit: &c.Limit, Mine: &c.Mine}
	if c.State != "" {
		params.State = new(wire.TaskState(c.State))
	}
	if c.Cursor != "" {
		params.Cursor = &c.Cursor
	}
	res, err := client.ListTasksWithResponse(ctx, &params)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "TASK", "STATE", "REPOSITORY", "CREATED", "TITLE")
		for _, task := range res.JSON200.Items {
			line(w, task.Id, string(task.State), task.RepositoryName, when(task.CreatedAt), task.Title)
		}
		more(w, res.JSON200.NextCursor)
	})
}

// more says how to go on where a list did not end.
func more(w io.Writer, cursor string) {
	if cursor != "" {
		fmt.Fprintf(w, "\nMore with --cursor %s\n", safe(cursor))
	}
}

type taskShowCmd struct {
	remote
	Task string `arg:"" help:"Task id."`
}

func (c taskShowCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.GetTaskWithResponse(ctx, c.Task)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) { showTask(w, *res.JSON200, address) })
}

type taskCancelCmd struct {
	remote
	Task   string `arg:"" help:"Task id."`
	Reason string `help:"Why; it is shown and kept."`
}

func (c taskCancelCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.CancelTaskWithResponse(ctx, c.Task, &wire.CancelTaskParams{IdempotencyKey: key()}, wire.Reason{Reason: c.Reason})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) { showTask(w, *res.JSON200, address) })
}

type taskRunCmd struct {
	remote
	Task string `arg:"" help:"Task id."`
	Wait bool   `help:"Wait until the run needs a person or has ended."`
}

func (c taskRunCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	task, err := client.GetTaskWithResponse(ctx, c.Task)
	if err != nil {
		return err
	}
	if task.JSON200 == nil {
		return refused(task.Status(), task.ApplicationproblemJSONDefault)
	}
	if task.JSON200.State == wire.TaskStateDRAFT {
		return c.submit(ctx, client, t, address)
	}
	res, err := client.RunTaskWithResponse(ctx, c.Task, &wire.RunTaskParams{IdempotencyKey: key()})
	if err != nil {
		return err
	}
	if res.JSON201 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	if err := c.show(t.Out, res.JSON201, func(w io.Writer) { showRun(w, *res.JSON201, address) }); err != nil {
		return err
	}
	if c.Wait {
		return follow(ctx, client, t, res.JSON201.Id, 0, true)
	}
	return nil
}

// submit gives a draft its first run.
func (c taskRunCmd) submit(ctx context.Context, client *wire.ClientWithResponses, t terminal, address string) error {
	res, err := client.SubmitTaskWithResponse(ctx, c.Task, &wire.SubmitTaskParams{IdempotencyKey: key()})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	if err := c.show(t.Out, res.JSON200, func(w io.Writer) { showTask(w, *res.JSON200, address) }); err != nil {
		return err
	}
	if c.Wait && res.JSON200.ActiveRunId != "" {
		return follow(ctx, client, t, res.JSON200.ActiveRunId, 0, true)
	}
	return nil
}

type taskCloseCmd struct {
	remote
	Task   string `arg:"" help:"Task id."`
	Reason string `required:"" help:"Why; it is shown and kept."`
}

func (c taskCloseCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.CloseTaskWithResponse(ctx, c.Task, &wire.CloseTaskParams{IdempotencyKey: key()}, wire.Reason{Reason: c.Reason})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) { showTask(w, *res.JSON200, address) })
}
