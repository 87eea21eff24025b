package devicetest

import (
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/internal/testenv"
)

// faulty is a driver with one fault: a sound one whose calls pass through here.
type faulty struct {
	device.QP
	at *flaw

	dup    device.Completion // to be reported a second time
	closed bool
	sink   []byte
}

// flaw changes one thing; nil fields leave it as it is.
type flaw struct {
	caseName string // that must notice

	config   func(*device.QPConfig)
	opened   func(*faulty)
	send     func(q *faulty, wr device.SendWR) error
	seen     func(q *faulty, c *device.Completion)
	twice    bool
	arm      func(q *faulty) bool
	postRecv func(q *faulty, slots []int32)
	destroy  func(q *faulty, ah device.AH) error
	closing  func(q *faulty) error
	learn    func(q *faulty, n uint8)

	abilities func(*sim.DeviceConfig)
	access    func(*device.Access)
	region    func(device.MR) device.MR
}

type faultyDevice struct {
	device.Device
	at *flaw
}

func (d faultyDevice) OpenQP(cfg device.QPConfig) (device.QP, error) {
	if d.at.config != nil {
		d.at.config(&cfg)
	}
	qp, err := d.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	q := &faulty{QP: qp, at: d.at}
	if d.at.opened != nil {
		d.at.opened(q)
	}
	return q, nil
}

func (q *faulty) PostSend(wr *device.SendWR) error {
	if q.at.send != nil {
		return q.at.send(q, *wr)
	}
	return q.QP.PostSend(wr)
}

func (q *faulty) Poll(c []device.Completion) int {
	if q.at.twice && q.dup.Op != 0 && len(c) > 0 {
		c[0], q.dup = q.dup, device.Completion{}
		return 1
	}
	n := q.QP.Poll(c)
	for i := range c[:n] {
		if q.at.seen != nil {
			q.at.seen(q, &c[i])
		}
		if q.at.twice && c[i].ID%7 == 3 {
			q.dup = c[i]
		}
	}
	return n
}

func (q *faulty) Arm() bool {
	if q.at.arm != nil {
		return q.at.arm(q)
	}
	return q.QP.Arm()
}

func (q *faulty) PostRecv(slots []int32) {
	if q.at.postRecv != nil {
		q.at.postRecv(q, slots)
		return
	}
	q.QP.PostRecv(slots)
}

func (q *faulty) DestroyAH(ah device.AH) error {
	if q.at.destroy != nil {
		return q.at.destroy(q, ah)
	}
	return q.QP.DestroyAH(ah)
}

func (q *faulty) Close() error {
	if q.at.closing != nil {
		return q.at.closing(q)
	}
	return q.QP.Close()
}

func (q *faulty) SetRNRRetry(n uint8) error {
	if q.at.learn != nil {
		q.at.learn(q, n)
		return nil
	}
	return q.QP.SetRNRRetry(n)
}

var flaws = map[string]*flaw{
	"drops the last piece": {caseName: "Pieces", send: func(q *faulty, wr device.SendWR) error {
		if len(wr.More) > 0 {
			wr.More = wr.More[:len(wr.More)-1]
		}
		return q.QP.PostSend(&wr)
	}},
	"opens what it has not": {caseName: "NotOffered", config: func(c *device.QPConfig) { c.Type = device.SRD }},
	"corrupts a byte": {caseName: "EverySize", send: func(q *faulty, wr device.SendWR) error {
		if len(wr.Header) == 77 {
			wr.Header = append([]byte{}, wr.Header...)
			wr.Header[76] ^= 1
		}
		return q.QP.PostSend(&wr)
	}},
	"cuts the header off": {caseName: "HeaderAndPayload", send: func(q *faulty, wr device.SendWR) error {
		wr.Header = nil
		return q.QP.PostSend(&wr)
	}},
	"truncates what is too long": {caseName: "TooLong", send: func(q *faulty, wr device.SendWR) error {
		wr.Header = wr.Header[:min(len(wr.Header), sim.DefaultMTU)]
		wr.Payload = wr.Payload[:min(len(wr.Payload), sim.DefaultMTU-len(wr.Header))]
		return q.QP.PostSend(&wr)
	}},
	"reports twice":                     {caseName: "QueueFull", twice: true},
	"has a deeper queue than asked for": {caseName: "QueueFull", config: func(c *device.QPConfig) { c.SQDepth++ }},
	"mangles ids":                       {caseName: "IDsEchoed", seen: func(_ *faulty, c *device.Completion) { c.ID &= 0xffffffff }},
	"gives up after an RNR":             {caseName: "RNR/forever", config: func(c *device.QPConfig) { c.RNRRetry = 0 }},
	"never gives up":                    {caseName: "RNR/3", config: func(c *device.QPConfig) { c.RNRRetry = 7 }},
	"posts slots by itself":             {caseName: "NothingPosted", opened: func(q *faulty) { q.QP.PostRecv([]int32{1}) }},
	"keeps slots":                       {caseName: "SlotsBelongToTheReader", postRecv: func(q *faulty, s []int32) { q.QP.PostRecv(s[:len(s)-1]) }},
	"posts polled slots by itself": {caseName: "SlotsBelongToTheReader", seen: func(q *faulty, c *device.Completion) {
		if c.Op == device.OpRecv {
			q.QP.PostRecv([]int32{int32(c.ID)})
		}
	}},
	"does not count handles": {caseName: "AHCounted", destroy: func(q *faulty, ah device.AH) error {
		for q.QP.DestroyAH(ah) == nil {
		}
		return nil
	}},
	"takes any GID for its own": {caseName: "AHOfAnother", send: func(q *faulty, wr device.SendWR) error {
		wr.AH = device.AH(wr.QPN - 20501) // the handles are made in that order
		return q.QP.PostSend(&wr)
	}},
	"remembers where a number led": {caseName: "AHReused", send: func(q *faulty, wr device.SendWR) error {
		if wr.QPN == 20501 {
			wr.AH = 1 // the later one
		}
		return q.QP.PostSend(&wr)
	}, opened: func(q *faulty) {
		if gid := sim.IndexGID(2); q.QPN() < 20501 {
			_, _ = q.QP.CreateAH(gid)
		}
	}},
	"never learns":  {caseName: "RNR/set", learn: func(*faulty, uint8) {}},
	"leaks handles": {caseName: "UnknownSender", destroy: func(*faulty, device.AH) error { return nil }},
	"hides the sender's GID": {caseName: "UnknownSender", seen: func(_ *faulty, c *device.Completion) {
		c.SrcGID = device.GID{}
	}},
	"calls an orderly end a death": {caseName: "Left", seen: func(_ *faulty, c *device.Completion) { c.Left = false }},
	"has no Q_Keys": {
		caseName: "WrongQKey",
		config:   func(c *device.QPConfig) { c.QKey = 0 },
		send: func(q *faulty, wr device.SendWR) error {
			wr.QKey = 0
			return q.QP.PostSend(&wr)
		},
	},
	"confuses refusals": {caseName: "UnknownQPN", seen: func(_ *faulty, c *device.Completion) {
		if c.Status != device.StatusOK {
			c.Status = device.StatusRNR
		}
	}},
	"always lets sleep": {caseName: "ArmRefusedWhenReady", arm: func(q *faulty) bool {
		q.QP.Arm()
		return true
	}},
	"closes twice": {caseName: "UseAfterClose", closing: func(q *faulty) error {
		_ = q.QP.Close()
		return nil
	}},
	"stays open": {caseName: "CloseReceiverUnderWay", closing: func(q *faulty) error {
		if q.closed {
			return device.ErrClosed
		}
		q.closed = true
		return nil
	}},
	"allocates": {caseName: "NoAllocations", send: func(q *faulty, wr device.SendWR) error {
		q.sink = make([]byte, 64)
		return q.QP.PostSend(&wr)
	}},
	"finds the dead well": {caseName: "Death/status", seen: func(_ *faulty, c *device.Completion) {
		c.Status = device.StatusOK
	}},
	"forgets who died": {caseName: "Death/gone", seen: func(_ *faulty, c *device.Completion) { c.QKey = 0 }},
}

// verdict stands in for a test's t: it notes failure instead of reporting it.
type verdict struct {
	testing.TB
	failed bool
	undo   []func()
}

func (v *verdict) Helper()               {}
func (v *verdict) Errorf(string, ...any) { v.failed = true }
func (v *verdict) Error(...any)          { v.failed = true }
func (v *verdict) Cleanup(f func())      { v.undo = append(v.undo, f) }
func (v *verdict) FailNow()              { v.failed = true; runtime.Goexit() }
func (v *verdict) Fatalf(string, ...any) { v.FailNow() }
func (v *verdict) Fatal(...any)          { v.FailNow() }
func (v *verdict) Failed() bool          { return v.failed }

// passes runs one case against a device with the flaw.
func passes(t *testing.T, name string, at *flaw, wait time.Duration) bool {
	return passesOn(t, name, wait, func(v *verdict, devices int) *Fabric {
		f, err := sim.New(sim.Config{InOrder: true, ReportGone: true})
		require.NoError(v, err)
		df := &Fabric{ReportsGone: true, ReportsRefused: true}
		able := sim.DeviceConfig{RDMARead: true, RDMAWrite: true, MaxRDMA: 100_000}
		if at.abilities != nil {
			at.abilities(&able)
		}
		var devs []*sim.Device
		for range devices {
			d, err := f.OpenDevice(able)
			require.NoError(v, err)
			devs = append(devs, d)
			df.Devices = append(df.Devices, faultyDevice{d, at})
		}
		df.Kill = func(i int) { devs[i].Kill() }
		return df
	})
}

// passesOn runs one case on a fabric.
func passesOn(t *testing.T, name string, wait time.Duration, fabric func(v *verdict, devices int) *Fabric) bool {
	v := &verdict{TB: t}
	for _, c := range allCases() {
		if c.name != name {
			continue
		}
		done := make(chan struct{})
		go func() { // FailNow ends the goroutine
			defer close(done)
			c.run(newWorld(v, fabric(v, c.devices), wait))
		}()
		<-done
		for i := len(v.undo) - 1; i >= 0; i-- {
			v.undo[i]()
		}
		return !v.failed
	}
	t.Fatalf("no case %q", name)
	return false
}

// TestSuiteNotices: a driver with a flaw fails the case that is about it, which
// the same driver without it passes.
func TestSuiteNotices(t *testing.T) {
	maps.Copy(flaws, rdmaFlaws)
	for i, name := range slices.Sorted(maps.Keys(flaws)) {
		t.Run(name, func(t *testing.T) {
			if i%3 > 0 {
				testenv.Long(t, "other flaws are noticed")
			}
			at := flaws[name]
			require.True(t, passes(t, at.caseName, &flaw{abilities: at.abilities}, patience), "sound")
			require.False(t, passes(t, at.caseName, at, time.Second), "flawed")
		})
	}
}
