package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"signalbox/internal/argv"
	"signalbox/internal/wire"
)

type repositoryCmd struct {
	List repositoryListCmd `cmd:"" help:"List repositories."`
	Add  repositoryAddCmd  `cmd:"" help:"Register a repository."`
}

type repositoryListCmd struct{ remote }

func (c repositoryListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	all, err := repositories(ctx, client)
	if err != nil {
		return err
	}
	return c.show(t.Out, all, func(w io.Writer) {
		line(w, "REPOSITORY", "NAME", "FORGE", "BRANCH", "CHECKS", "ADDRESS")
		for _, r := range all {
			line(w, r.Id, r.Name, r.ForgeKind, r.DefaultBranch, fmt.Sprint(len(r.Verification)), r.CloneUrl)
		}
	})
}

func repositories(ctx context.Context, client *wire.ClientWithResponses) ([]wire.Repository, error) {
	var all []wire.Repository
	params := wire.ListRepositoriesParams{Limit: new(500)}
	for {
		res, err := client.ListRepositoriesWithResponse(ctx, &params)
		if err != nil {
			return nil, err
		}
		if res.JSON200 == nil {
			return nil, refused(res.Status(), res.ApplicationproblemJSONDefault)
		}
		all = append(all, res.JSON200.Items...)
		if res.JSON200.NextCursor == "" {
			return all, nil
		}
		params.Cursor = &res.JSON200.NextCursor
	}
}

// findRepository accepts an id or a name.
func findRepository(ctx context.Context, client *wire.ClientWithResponses, nameOrID string) (string, error) {
	if strings.HasPrefix(nameOrID, "repo_") {
		return nameOrID, nil
	}
	all, err := repositories(ctx, client)
	if err != nil {
		return "", err
	}
	for _, r := range all {
		if r.Name == nameOrID {
			return r.Id, nil
		}
	}
	return "", fmt.Errorf("there is no repository named %q; signalbox repository list shows the names", nameOrID)
}

type repositoryAddCmd struct {
	remote
	Name     string   `arg:"" help:"Owner and name, for example acme/api."`
	CloneURL string   `arg:"" name:"clone-url" help:"Where git finds it."`
	Forge    string   `help:"Forge id or name." default:"local"`
	Branch   string   `help:"Default branch." default:"main"`
	Verify   []string `help:"A check, quoted as in a shell but run without one; repeat for more." sep:"none"`
}

func (c repositoryAddCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	forges, err := client.ListForgesWithResponse(ctx)
	if err != nil {
		return err
	}
	if forges.JSON200 == nil {
		return refused(forges.Status(), forges.ApplicationproblemJSONDefault)
	}
	body := wire.RepositoryCreate{Name: c.Name, CloneUrl: c.CloneURL, DefaultBranch: c.Branch}
	for _, f := range forges.JSON200.Items {
		if f.Id == c.Forge || f.Name == c.Forge {
			body.ForgeId = f.Id
		}
	}
	if body.ForgeId == "" {
		return fmt.Errorf("there is no forge %q, so nothing was registered", c.Forge)
	}
	for _, v := range c.Verify {
		words, err := argv.Parse(v)
		if err != nil {
			return fmt.Errorf("nothing was registered: the check %q cannot be read: %w", v, err)
		}
		body.Verification = append(body.Verification, wire.VerificationCommand{Name: v, Argv: words})
	}
	res, err := client.CreateRepositoryWithResponse(ctx, &wire.CreateRepositoryParams{IdempotencyKey: key()}, body)
	if err != nil {
		return err
	}
	if res.JSON201 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON201, func(w io.Writer) {
		line(w, res.JSON201.Id, res.JSON201.Name)
		for _, v := range res.JSON201.Verification {
			line(w, "checked by", argv.Format(v.Argv))
		}
	})
}
