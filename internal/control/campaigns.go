package control

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"signalbox/db"
)

// Campaigns moves fleet campaigns: each look learns where the targets' tasks stand, and does what the plan says.
type Campaigns struct {
	Store *db.Store
	Log   *slog.Logger
	seen  visitor
}

// RunOnce returns how many campaigns moved.
func (c *Campaigns) RunOnce(ctx context.Context) (int, error) {
	return each(ctx, &c.seen, c.Log, c.Store.GoingCampaigns, func(r db.CampaignRef) uuid.UUID { return r.Campaign }, c.Store.PassCampaign)
}
