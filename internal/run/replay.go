package run

import "fmt"

// Replay folds a run's log from nothing. It stops at the first event that the
// reducer refuses and names it by its position (1 is run_created).
func Replay(events []Event) (Run, error) {
	var r Run
	for i, ev := range events {
		res, err := Reduce(r, ev)
		if err != nil {
			return r, fmt.Errorf("event %d (%s): %w", i+1, ev.Kind(), err)
		}
		r = res.Run
	}
	return r, nil
}
