package death

import (
	"context"
	"time"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// fault is what happens to a side.
type fault struct {
	name   string
	lasts  time.Duration
	strike func(r *run, victim *side)
	told   bool // devices say when a process is dead
	dead   bool // the victim does not live on
	mild   bool // nothing may come of it
}

// Pauses within and beyond PeerTimeout, and how long a connection stays cut.
const (
	shortPause = patience / 2
	longPause  = patience * 5 / 2
	shortCut   = 20 * time.Millisecond
)

// faults are all of them.
var faults = []*fault{
	{name: "killed", dead: true, told: true, strike: kill},
	{name: "killed, nobody is told", dead: true, strike: kill},
	{name: "restarted", dead: true, strike: restart},
	{name: "paused briefly", lasts: shortPause, mild: true, strike: pause(shortPause, false)},
	{name: "paused briefly with its device", lasts: shortPause, mild: true, strike: pause(shortPause, true)},
	{name: "paused long", lasts: longPause, strike: pause(longPause, false)},
	{name: "paused long with its device", lasts: longPause, strike: pause(longPause, true)},
	{name: "cut off", lasts: shortCut, strike: cut(shortCut)},
	{name: "cut off long", lasts: longPause, strike: cut(longPause)},
	{name: "closed by its program", strike: closes},
}

func kill(_ *run, victim *side) {
	victim.gone = true
	victim.seam.sim.Kill()
}

// afterlife is how long after its death an endpoint comes back: packets of the dead one
// have arrived by then.
const afterlife = time.Millisecond

// restart kills the victim, and another takes its address.
func restart(r *run, victim *side) {
	kill(r, victim)
	r.w.Go("restart", func(context.Context) error {
		if err := r.w.Sleep(afterlife); err != nil {
			return err
		}
		r.back = r.open("restarted", victim.raw)
		return nil
	})
}

// pause stops the victim's process; with its device, which then takes no packet either.
func pause(d time.Duration, device bool) func(*run, *side) {
	return func(r *run, victim *side) {
		victim.seam.held = true
		victim.stillUntil = r.w.Elapsed() + d
		victim.seam.sim.Pause(d)
		if device {
			victim.seam.sim.StandStill(d)
		}
		r.w.Go("pause", func(context.Context) error {
			err := r.w.Sleep(d)
			victim.seam.held = false
			return err
		})
	}
}

// cut ends the connection between the two: what is under way fails, and so does what is
// sent before there is another.
func cut(d time.Duration) func(*run, *side) {
	return func(r *run, _ *side) { r.cut(d) }
}

func (r *run) cut(d time.Duration) {
	var rules []*sim.Rule
	for _, x := range [][2]*side{{r.a, r.b}, {r.b, r.a}} {
		rule, err := r.w.Fabric().AddRule(efatest.Rule{
			Fault: efatest.FaultStatus, Status: efatest.StatusAbort, From: place(x[0].raw), To: place(x[1].raw),
		})
		must(err)
		rules = append(rules, rule)
	}
	r.w.Go("mend", func(context.Context) error {
		err := r.w.Sleep(d)
		for _, rule := range rules {
			r.w.Fabric().RemoveRule(rule)
		}
		return err
	})
}

// closes has the victim's program close its endpoint. Its operations have their outcomes,
// and the other side has to do with a peer that is no more.
func closes(r *run, victim *side) {
	victim.closed = true
	r.w.Go("close", func(context.Context) error {
		from := r.w.Elapsed()
		err := victim.ep.Close()
		if took := r.w.Elapsed() - from; took > time.Second+slack {
			r.badf("%s: closing took %v", victim.name, took)
		}
		return err
	})
}

func place(a efa.RawAddr) efatest.Place { return efatest.Place{GID: a.GID(), QPN: a.QPN()} }
