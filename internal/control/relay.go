package control

import (
	"context"
	"log/slog"

	"signalbox/db"
)

// Relay delivers the outbox: effects that follow from transitions and happen
// outside them. Delivery is at least once and in order; what fails is tried again
// with growing delays and stays as a visible dead letter in the end. In this
// version every effect becomes an in-app notice; chat, mail and webhooks will be
// further deliveries of the same rows.
type Relay struct {
	Store *db.Store
	Log   *slog.Logger
}

const maxDeliveries = 8

// RunOnce returns how many effects were looked at.
func (r *Relay) RunOnce(ctx context.Context) (int, error) {
	return r.Store.Relay(ctx, batch, maxDeliveries, func(_ context.Context, e db.Effect) error {
		r.Log.Debug("effect delivered", "run_id", e.Ref.Run, "seq", e.Seq, "topic", e.Topic)
		return nil
	})
}
