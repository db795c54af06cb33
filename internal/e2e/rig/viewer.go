package rig

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Viewer is what came to one reader of a run's page over its stream, with as many connections as it took.
type Viewer struct {
	// Rows are the numbers of the events in the order in which they came, At when.
	Rows []int
	At   []time.Time
	// Panel is the state's panel as it stood last.
	Panel string
	// Connections are those that the server accepted.
	Connections []Connection
	// Back is how long it took after each cut until the first message came.
	Back []time.Duration
	Err  error
}

// Connection is how many messages came over one connection, and for how long.
type Connection struct {
	Messages int
	Lasted   time.Duration
}

var rowID = regexp.MustCompile(`<li class="tl-row[^>]* id="e([0-9]+)"`)

// Watch lets each person read a run's page with so many streams until the run ends, and answers when all have seen it end or ctx is
// done. Each comes back as the page's script does, with the id of the last message. here is called once for each, when the first message
// has come or none will.
func (r *Rig) Watch(ctx context.Context, run string, people []*Person, each int, here func()) []*Viewer {
	all := make([]*Viewer, len(people)*each)
	var wg sync.WaitGroup
	for i := range all {
		all[i] = &Viewer{}
		wg.Go(func() { all[i].follow(ctx, people[i/each], "/runs/"+run+"/stream?after=0", here) })
	}
	wg.Wait()
	return all
}

// again is the pause before a viewer asks anew; a page's script begins with half a second.
const again = 250 * time.Millisecond

func (v *Viewer) follow(ctx context.Context, p *Person, path string, here func()) {
	var first sync.Once
	defer first.Do(here) // nobody waits for one that failed
	last, over := "", false
	cut := time.Time{}
	pause := time.NewTicker(again)
	defer pause.Stop()
	for !over {
		c, began := Connection{}, time.Now()
		status, err := p.Stream(ctx, path, last, func(m Message) bool {
			over = over || m.Event == "ended"
			if m.ID == "" {
				return true
			}
			if !cut.IsZero() {
				v.Back, cut = append(v.Back, time.Since(cut)), time.Time{}
			}
			c.Messages, c.Lasted = c.Messages+1, time.Since(began)
			v.take(m)
			first.Do(here)
			last = m.ID
			return true
		})
		switch {
		case ctx.Err() != nil:
			v.Err = fmt.Errorf("not over when the time was: %w", ctx.Err())
			return
		case status == http.StatusNoContent:
			return
		case status == http.StatusOK:
			v.Connections = append(v.Connections, c)
			cut = time.Now()
		case err == nil:
			v.Err = fmt.Errorf("the stream was answered %d", status)
			return
		}
		<-pause.C
	}
}

func (v *Viewer) take(m Message) {
	now := time.Now()
	for _, found := range rowID.FindAllStringSubmatch(m.Data, -1) {
		n, _ := strconv.Atoi(found[1])
		v.Rows, v.At = append(v.Rows, n), append(v.At, now)
	}
	if panel, _, ok := strings.Cut(m.Data, `hx-target="#run-facts"`); ok {
		v.Panel = panel
	}
}
