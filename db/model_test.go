package db_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
)

// The model of the queue and its leases: what the product must do, said as plainly as it can be. It knows no SQL, no
// batches, no lanes. Its clock counts whole minutes; what passes by itself while a test runs is far less than one.

// Minutes of the model's clock, and how often a run is tried.
const (
	modelTTL, modelGrace, modelAging            = 60, 10, 10
	modelAttempts, modelCrashes, modelDelivered = 2, 2, 1
)

// modelLease is a lease that nobody has taken back yet, whether its time is over or not.
type modelLease struct {
	id      uuid.UUID
	token   int64
	phase   run.Phase
	boot    *modelBoot
	claim   string
	expires int
}

// modelRun is one run. It has a lease, waits (queued, delayed or not), or neither.
type modelRun struct {
	n                        int // for people: its place in the order of requests
	ref                      db.Ref
	tenant, user, repository int
	priority                 int
	jdk                      bool
	state                    run.State
	queued                   run.Phase // "": it does not wait for a worker
	delayed                  bool
	since, order             int // when it got ready, and after how many others
	lease                    *modelLease
	token                    int64 // the highest it ever had
	// How often it was tried.
	attempts, released, crashed, verifyAgain, publishAgain int
	back                                                   int // how often it was given back since it last got further
	cancelled                                              int // when somebody asked; only with a stop asked for
}

// String is the run in words.
func (r *modelRun) String() string {
	s := fmt.Sprintf("run %d (tenant %d, user %d, repository %d, priority %d, jdk %t) is %s after %d attempts (%d released, %d crashed), delivered again %d and %d times",
		r.n, r.tenant, r.user, r.repository, r.priority, r.jdk, r.state, r.attempts, r.released, r.crashed, r.verifyAgain, r.publishAgain)
	switch {
	case r.lease != nil:
		s += fmt.Sprintf(", leased to %s for %s by %s", r.lease.boot, r.lease.phase, r.lease.claim)
	case r.queued != "":
		s += fmt.Sprintf(", queued for %s (delayed: %t)", r.queued, r.delayed)
	}
	return s
}

type modelBoot struct {
	n       int
	id      uuid.UUID
	worker  int
	jdk     bool
	room    int
	state   string // READY, DRAINING, STOPPED
	drained bool   // somebody asked for it
}

func (b *modelBoot) String() string {
	return fmt.Sprintf("boot %d (worker %d, jdk %t, room for %d, %s, drained %t)", b.n, b.worker, b.jdk, b.room, b.state, b.drained)
}

// modelWorker is a credential: the tenant that it serves (-1: all) and its phases.
type modelWorker struct {
	tenant int
	phases []run.Phase
}

// modelLimits of one tenant; 0 is no limit.
type modelLimits struct {
	tenant, repository, user int
	share                    int // of the installation
}

type model struct {
	now     int
	order   int
	runs    []*modelRun
	boots   []*modelBoot
	workers []modelWorker
	limits  []modelLimits // by tenant
	all     int           // limit of the installation
	paused  []bool        // by tenant; the pause of tenant 0 is that of all
}

func (m *model) leases(of func(*modelRun) bool) (n int) {
	for _, r := range m.runs {
		if r.lease != nil && of(r) {
			n++
		}
	}
	return n
}

// room is how many more leases the boot may have.
func (m *model) room(b *modelBoot) int {
	return b.room - m.leases(func(r *modelRun) bool { return r.lease.boot == b })
}

// given are the leases that the boot's claim gave and that are left, in the order of their tokens.
func (m *model) given(b *modelBoot, claim string) (out []*modelRun) {
	for _, r := range m.runs {
		if r.lease != nil && r.lease.boot == b && r.lease.claim == claim {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(x, y *modelRun) int { return cmp.Compare(x.lease.token, y.lease.token) })
	return out
}

// may says whether the boot may be given the run now, if it asks for these phases.
func (m *model) may(b *modelBoot, phases []run.Phase, r *modelRun) bool {
	w, l := m.workers[b.worker], m.limits[r.tenant]
	under := func(most int, of func(*modelRun) bool) bool { return most == 0 || m.leases(of) < most }
	return b.state == "READY" && !b.drained && m.room(b) > 0 &&
		r.queued != "" && !r.delayed && r.lease == nil &&
		slices.Contains(phases, r.queued) && slices.Contains(w.phases, r.queued) && (w.tenant < 0 || w.tenant == r.tenant) &&
		(!r.jdk || b.jdk || r.queued == run.PhasePublish) &&
		!m.paused[0] && !m.paused[r.tenant] &&
		under(m.all, func(*modelRun) bool { return true }) &&
		under(l.share, func(x *modelRun) bool { return x.tenant == r.tenant }) &&
		under(l.tenant, func(x *modelRun) bool { return x.tenant == r.tenant }) &&
		under(l.repository, func(x *modelRun) bool { return x.tenant == r.tenant && x.repository == r.repository }) &&
		under(l.user, func(x *modelRun) bool { return x.tenant == r.tenant && x.user == r.user })
}

// before says whether x goes before r among the work of one person.
func (m *model) before(x, r *modelRun) bool {
	return x.tenant == r.tenant && x.user == r.user && x.queued == r.queued &&
		cmp.Or(cmp.Compare(x.since-x.priority*modelAging, r.since-r.priority*modelAging), cmp.Compare(x.order, r.order)) < 0
}

// over says that the lease's time is over.
func (m *model) over(l *modelLease) bool { return m.now >= l.expires }

// graceOver says that the worker was told to stop and had its time for it.
func (m *model) graceOver(r *modelRun) bool {
	return r.state == run.Cancelling && m.now >= r.cancelled+modelGrace
}

func (m *model) enqueue(r *modelRun, p run.Phase, delayed bool) {
	r.queued, r.delayed, r.lease = p, delayed, nil
	r.since, r.order = m.now, m.order
	m.order++
}

func (m *model) grant(r *modelRun, l modelLease) {
	l.expires = m.now + modelTTL
	r.lease, r.queued, r.token = &l, "", l.token
	if l.phase == run.PhaseExecute {
		r.state = run.Leased
		r.attempts++
	}
}

// end leaves the run with nothing.
func (m *model) end(r *modelRun, s run.State) {
	r.state, r.queued, r.delayed, r.lease = s, "", false, nil
}

// completed is the end of the lease's phase with what it is for.
func (m *model) completed(r *modelRun) {
	r.back = 0
	switch r.lease.phase {
	case run.PhaseExecute:
		r.state, r.verifyAgain = run.PatchReady, 0
		m.enqueue(r, run.PhaseVerify, false)
	case run.PhaseVerify:
		m.end(r, run.WaitingForApproval)
	case run.PhasePublish:
		m.end(r, run.Succeeded)
	}
}

// released is the holder's own word that it gives the phase back: the first time nothing is waited for.
func (m *model) released(r *modelRun) {
	m.again(r)
	if r.queued != "" {
		r.delayed = r.back > 0
		r.back++
	}
}

// again gives the phase back without counting it.
func (m *model) again(r *modelRun) {
	p := r.lease.phase
	switch {
	case r.state == run.Cancelling:
		m.end(r, run.Cancelled)
		return
	case p == run.PhaseExecute:
		r.state, r.verifyAgain, r.publishAgain = run.Queued, 0, 0
		r.released++
	}
	m.enqueue(r, p, false)
}

// failed is an attempt that ended with something that may go away; crash: its worker went, after which the first time the run
// is given out again at once.
func (m *model) failed(r *modelRun, crash bool) {
	p := r.lease.phase
	count := &r.verifyAgain
	switch {
	case r.state == run.Cancelling:
		m.end(r, run.Cancelled)
		return
	case p == run.PhaseExecute:
		if crash {
			r.crashed++
		}
		used, most := r.attempts-r.released-r.crashed, modelAttempts
		if crash {
			used, most = r.crashed, modelCrashes
		}
		if used >= most {
			m.end(r, run.Failed)
			return
		}
		r.state, r.verifyAgain, r.publishAgain = run.Queued, 0, 0
		m.enqueue(r, p, !crash || r.crashed > 1)
		return
	case p == run.PhasePublish:
		count = &r.publishAgain
	}
	if *count >= modelDelivered {
		m.end(r, run.Failed)
		return
	}
	*count++
	m.enqueue(r, p, !crash || *count > 1)
}

// reaped is the end of a lease whose time, or whose grace, is over.
func (m *model) reaped(r *modelRun) {
	if b := r.lease.boot; r.state != run.Cancelling && (b.drained || b.state != "READY") {
		m.again(r) // the worker was told to go: that counts nowhere
		return
	}
	m.failed(r, true)
}

// cancel asks the run to stop; a worker that holds it is told.
func (m *model) cancel(r *modelRun) {
	switch {
	case r.state == run.Cancelling:
	case r.lease != nil:
		r.state, r.cancelled = run.Cancelling, m.now
	default:
		m.end(r, run.Cancelled)
	}
}
