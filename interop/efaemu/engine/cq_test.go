package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
)

// complete brings p one completion.
func (p *prog) complete() {
	p.post(abi.WQE{AH: 0xfff0}) // no such handle
	p.w.run()
	p.w.log.Take()
}

// readEvent handles an event as a library does.
func (p *prog) readEvent() {
	p.t.Helper()
	require.Equal(p.t, 1, p.events)
	p.events = 0
	p.sn++
}

func TestEvents(t *testing.T) {
	for _, exactly := range []bool{false, true} {
		o := options{}
		o.engine.ExactDoorbells = exactly
		w, a, _ := pair(t, o, progConfig{})
		a.complete()
		require.Zero(t, a.events, "not armed")
		require.Len(t, a.poll(), 1)
		for range 10 { // more than the two bits of the count
			a.ringCQ(true)
			w.run()
			require.Zero(t, a.events, "nothing came")
			a.complete()
			a.readEvent()
			a.complete()
			require.Zero(t, a.events, "one event for each time that it is armed")
			require.Len(t, a.poll(), 2)
		}
		if exactly {
			w.run()
			a.complete()
			assert.Zero(t, a.events, "disarmed")
			assert.Equal(t, uint32(10), a.cq.Events())
			assert.Equal(t, uint64(10), a.e.Stats().Events)
		}
		a.poll()
		w.clean()
		a.qp.Close()
		a.cq.Close()
		a.ringCQ(true)
		w.run()
		assert.LessOrEqual(t, a.events, 1, "a closed queue has none")
	}
}

// The completion came between the program's last look and the arming.
func TestEventForWhatIsThereAlready(t *testing.T) {
	w, a, _ := pair(t, options{}, progConfig{})
	a.complete()
	a.ringCQ(true)
	w.run()
	a.readEvent()
	require.Len(t, a.poll(), 1)
	w.clean()
}

// The program takes the completion, and rings for that, between it and the event, which
// comes all the same.
func TestEventForWhatIsTakenAlready(t *testing.T) {
	for _, exactly := range []bool{false, true} {
		o := options{}
		o.engine.ExactDoorbells = exactly
		w := newWorld(t, o)
		e := w.engine(o)
		a, b := w.newProg(e, progConfig{}), w.newProg(e, progConfig{})
		taken := 0
		a.told = func() { taken += len(b.poll()) } // its queue's turn is first
		for n := 1; n < 10; n++ {
			a.ringCQ(true)
			b.ringCQ(true)
			a.post(abi.WQE{AH: 0xfff0}) // no such handle
			b.complete()
			require.Equal(t, n, taken)
			a.readEvent()
			b.readEvent()
			require.Len(t, a.poll(), 1)
		}
		w.clean()
	}
}

// A request that was overwritten before the engine saw it is not lost: programs arm,
// poll once more and sleep.
func TestArmingIsNotMissed(t *testing.T) {
	w, a, _ := pair(t, options{}, progConfig{})
	for range 9 {
		a.complete()
		a.ringCQ(true) // not seen
		require.Len(t, a.poll(), 1)
		a.complete()
		a.readEvent()
		require.Len(t, a.poll(), 1)
		w.run()
	}
	w.clean()
}

func TestNoDoorbell(t *testing.T) {
	w, a, _ := pair(t, options{}, progConfig{noBell: true, cq: 4})
	for range 10 {
		a.complete()
		require.Len(t, a.poll(), 1)
	}
	assert.Zero(t, a.events)
	w.clean()
}

// Consumption is counted modulo 65536 and over all sub-queues.
func TestConsumedCountWraps(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{sq: 64, rq: 64, cq: 256, subs: 2})
	for range 1500 {
		for i := range 64 {
			a.write(a.to(b, inline(uint16(i), nil)))
		}
		a.post()
		w.run()
		require.Len(t, a.poll(), 64)
	}
	require.Greater(t, a.consumed, uint32(1<<16))
	w.clean()
}

// Invalid configurations are refused where a queue pair is made.
func TestBadConfigurations(t *testing.T) {
	w, a, _ := pair(t, options{}, progConfig{})
	for name, change := range map[string]func(c *engine.CQConfig){
		"entries":  func(c *engine.CQConfig) { c.Entries = 63 },
		"size":     func(c *engine.CQConfig) { c.EntrySize = 8 },
		"ring":     func(c *engine.CQConfig) { c.Ring = c.Ring[:len(c.Ring)-1] },
		"unround":  func(c *engine.CQConfig) { c.Ring, c.Entries = c.Ring[1:], 32 },
		"subs":     func(c *engine.CQConfig) { c.SubCQs = 0 },
		"doorbell": func(c *engine.CQConfig) { c.Doorbell = c.Doorbell[:3] },
	} {
		cc := a.cqc
		change(&cc)
		c := a.e.NewCQ(cc)
		cfg := a.cfg
		cfg.RecvCQ = c
		_, err := a.e.NewQP(cfg)
		assert.ErrorIs(t, err, engine.ErrConfig, name)
		c.Close()
	}
	for name, change := range map[string]func(c *engine.QPConfig){
		"pd":       func(c *engine.QPConfig) { c.PD = nil },
		"space":    func(c *engine.QPConfig) { c.Space = nil },
		"sub":      func(c *engine.QPConfig) { c.SendSub = 1 },
		"cq":       func(c *engine.QPConfig) { c.SendCQ = nil },
		"sq":       func(c *engine.QPConfig) { c.SQEntries = 16 },
		"sq power": func(c *engine.QPConfig) { c.SQEntries = 7 },
		"sq deep":  func(c *engine.QPConfig) { c.SQEntries, c.SQ = 1<<16, make([]byte, 1<<22) },
		"wqe":      func(c *engine.QPConfig) { c.WQESize = 96 },
		"rq":       func(c *engine.QPConfig) { c.RQEntries = 16 },
		"sges":     func(c *engine.QPConfig) { c.MaxRecvSGE = 0 },
		"bell":     func(c *engine.QPConfig) { c.SQDoorbell = nil },
		"rq bell":  func(c *engine.QPConfig) { c.RQDoorbell = words(8)[1:] },
	} {
		cfg := a.cfg
		change(&cfg)
		_, err := a.e.NewQP(cfg)
		assert.ErrorIs(t, err, engine.ErrConfig, name)
	}
	cfg := a.cfg
	cfg.RQ, cfg.RQDoorbell, cfg.RQEntries, cfg.MaxRecvSGE = nil, nil, 0, 0
	q, err := a.e.NewQP(cfg)
	require.NoError(t, err, "without receive queue")
	q.Init(1)
	require.NoError(t, q.Receive())
	require.NoError(t, q.Send(0))
	w.run()
	q.Close()
	w.clean()
}
