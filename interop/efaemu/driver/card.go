//go:build linux

package driver

import (
	"context"
	"errors"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/faults"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/interop/efaemu/inproc"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/profile"
	"github.com/efactor/efactor/runtime/clock"
)

// Card is an emulated device.
type Card struct {
	Kernel   *kernel.Device
	Engine   *engine.Engine
	Findings *finding.Log // what a strict device would have refused

	fabric device.Device
}

// New makes a card of a profile whose packets fabric carries. The card owns fabric.
func New(fabric device.Device, p profile.Profile) (*Card, error) { return NewFaulty(fabric, p, nil) }

// NewFaulty makes a card that does what a plan has.
func NewFaulty(fabric device.Device, p profile.Profile, plan *faults.Plan) (*Card, error) {
	p = p.Within(fabric.Info())
	if err := p.Validate(); err != nil {
		return nil, errors.Join(err, fabric.Close())
	}
	c := &Card{Findings: new(finding.Log), fabric: fabric}
	c.Engine = engine.New(engine.Config{Profile: p, Device: fabric, Clock: clock.System, Findings: c.Findings, Faults: plan})
	c.Kernel = kernel.New(kernel.Config{Engine: c.Engine, Profile: p, Info: fabric.Info(), Findings: c.Findings, Faults: plan})
	return c, nil
}

// System is the system of a host that has the card.
func (c *Card) System() uverbs.Kernel { return system{card: c} }

// Close ends the card, which nobody has open any more.
func (c *Card) Close() error { return c.fabric.Close() }

type system struct {
	uverbs.OS
	card *Card
}

// Open implements uverbs.Kernel.
func (s system) Open(string) (uverbs.File, error) {
	f, err := inproc.Open(s.card.Kernel)
	if err != nil { // no File that is a nil pointer
		return nil, err
	}
	return f, nil
}

// nap is how long Run rests when there is nothing to do.
const nap = 50 * time.Microsecond

// Run lets the card work until ctx ends. It leaves the processor to others more than
// Engine.Run, beside whom it would take one away from them.
func (c *Card) Run(ctx context.Context) {
	rest := clock.NewTimer(0)
	defer rest.Stop()
	for ctx.Err() == nil {
		if !c.Engine.Step() {
			rest.Reset(nap)
			<-rest.C
		}
	}
}
