package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// ErrBusy is Device.Close's while queue pairs or regions are open.
var ErrBusy = errors.New("sim: queue pairs or regions are open")

// Device is one attachment to a fabric; it implements device.Device.
type Device struct {
	device.Base
	fab     *Fabric
	port    *port
	info    device.Info
	regions *nic.Regions

	// guarded by fab
	qps    []*qp // open ones, oldest first
	closed bool
	killed bool
	still  clock.Time // until then it takes nothing
}

var _ device.Device = (*Device)(nil)

// OpenDevice attaches a device.
func (f *Fabric) OpenDevice(cfg DeviceConfig) (*Device, error) {
	if cfg.MaxRDMA < 0 || cfg.MaxRegions < 0 {
		return nil, fmt.Errorf("%w: rdma of %d bytes, %d regions", ErrConfig, cfg.MaxRDMA, cfg.MaxRegions)
	}
	f.lock()
	defer f.unlock()
	gid := cfg.GID
	for gid == (device.GID{}) || cfg.GID == (device.GID{}) && f.ports[gid] != nil {
		f.lastGID++
		gid = IndexGID(f.lastGID)
	}
	f.opened++
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("sim%d", f.opened)
	}
	p := f.ports[gid]
	if p == nil {
		p = &port{gid: gid, net: cfg.Net, qps: make(map[uint16]*qp)}
		f.ports[gid] = p
	}
	if p.net != cfg.Net {
		return nil, fmt.Errorf("%w: port %s is on network %d, not %d", ErrConfig, gid, p.net, cfg.Net)
	}
	p.devices++
	info := device.Info{
		Name: cfg.Name, GID: gid, MTU: f.cfg.MTU,
		MaxSQ: f.cfg.MaxSQ, MaxRQ: f.cfg.MaxRQ, MaxQP: f.cfg.MaxQP, MaxMR: cmp.Or(cfg.MaxRegions, nic.DefaultMaxRegions),
		CopiesAtPost: !f.cfg.CopyLate, Gathers: cfg.Gathers && f.cfg.Virtual, MinRegister: cfg.MinRegister,
		MaxPieces: nic.MaxPieces, MaxRDMAPieces: 1, Datagram: true,
		RDMARead: cfg.RDMARead, RDMAWrite: cfg.RDMAWrite,
		Windows:   cfg.RDMARead && !cfg.NoWindows,
		HoldsBack: !cfg.NoHoldBack,
		LocalKeys: cfg.LocalKeys, UnsolicitedWrite: cfg.UnsolicitedWrite,
		MaxMedium: cfg.MaxMedium, MinRead: cfg.MinRead, MinReadWrite: cfg.MinReadWrite,
	}
	if cfg.RDMARead || cfg.RDMAWrite {
		info.MaxRDMA = cmp.Or(cfg.MaxRDMA, DefaultMaxRDMA)
	}
	return &Device{fab: f, port: p, info: info, regions: f.newRegions(cfg.MaxRegions)}, nil
}

// Reaches implements device.Device: there is or was such a port on the network.
func (d *Device) Reaches(gid device.GID) bool {
	d.fab.lock()
	defer d.fab.unlock()
	p := d.fab.ports[gid]
	return p != nil && p.net == d.port.net
}

// IndexGID is the link-local GID that the i-th device without one gets.
func IndexGID(i uint64) device.GID {
	g := device.GID{0: 0xfe, 1: 0x80}
	binary.BigEndian.PutUint64(g[8:], i)
	return g
}

// Info implements device.Device.
func (d *Device) Info() device.Info { return d.info }

// OpenQP implements device.Device.
func (d *Device) OpenQP(cfg device.QPConfig) (device.QP, error) {
	if err := device.Check(d.info, cfg); err != nil {
		return nil, err
	}
	f := d.fab
	f.lock()
	defer f.unlock()
	switch {
	case d.closed || d.killed:
		return nil, device.ErrClosed
	case len(d.qps) >= d.info.MaxQP:
		return nil, fmt.Errorf("%w: %d queue pairs", device.ErrNoMemory, len(d.qps))
	}
	if err := nic.SetDepths(&cfg, d.info, DefaultDepth, device.ErrNotSupported); err != nil {
		return nil, err
	}
	qpn, err := d.port.number(cfg.QPN)
	if err != nil {
		return nil, err
	}
	at := Endpoint{d.port.gid, qpn}
	if f.strike(FaultRefuseQP, &Event{From: at}) != nil {
		return nil, fmt.Errorf("%w: by a rule", device.ErrNoMemory)
	}
	q, err := newQP(d, qpn, &cfg)
	if err != nil {
		return nil, err
	}
	d.port.qps[qpn] = q.c // a vanished one of this number is forgotten
	d.qps = append(d.qps, q.c)
	f.qps = append(f.qps, q.c)
	f.hook(Event{Kind: EventOpen, From: at})
	return q, nil
}

// number returns a free queue pair number, or want if it is free. Numbers are
// reused late, so that packets for an earlier holder find no queue pair.
func (p *port) number(want uint16) (uint16, error) {
	free := func(n uint16) bool {
		q := p.qps[n]
		return n != 0 && (q == nil || q.vanished.Load())
	}
	if want != 0 {
		if !free(want) {
			return 0, fmt.Errorf("%w: %d", device.ErrQPNInUse, want)
		}
		return want, nil
	}
	for range 1 << 16 {
		p.lastQPN++
		if free(p.lastQPN) {
			return p.lastQPN, nil
		}
	}
	return 0, fmt.Errorf("%w: all", device.ErrQPNInUse)
}

// Close implements device.Device.
func (d *Device) Close() error {
	f := d.fab
	f.lock()
	defer f.unlock()
	switch {
	case d.closed:
		return device.ErrClosed
	case len(d.qps) > 0:
		return fmt.Errorf("%w: %d queue pairs", ErrBusy, len(d.qps))
	}
	if err := d.regions.Close(); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	d.closed = true
	if !d.killed {
		d.port.devices--
	}
	return nil
}

// Kill makes the device vanish with its queue pairs, as if its host had lost power:
// it sends no more, packets in flight still arrive, and sends to it end with
// StatusUnresponsive. Its queue pairs stay silent and must still be closed; others
// may take their numbers.
func (d *Device) Kill() {
	f := d.fab
	f.lock()
	defer f.unlock()
	if d.closed || d.killed {
		return
	}
	d.killed = true
	d.port.devices--
	for _, q := range d.qps {
		q.vanished.Store(true)
		q.left.Store(true)
		q.inbox.Close()
		f.dropRDMA(q)
		f.hook(Event{Kind: EventKill, From: q.endpoint()})
	}
	if f.cfg.ReportGone {
		for _, q := range d.qps {
			f.reportGone(q, false)
		}
	}
	if f.virtual == nil {
		f.pump(0)
	}
}

// StandStill makes the device take and acknowledge nothing for a time, as one does that its
// process runs, such as tcp's, while that is stopped: what arrives meanwhile waits for the
// end of it.
func (d *Device) StandStill(t time.Duration) {
	f := d.fab
	f.lock()
	defer f.unlock()
	d.still = f.clk.Now().Add(t)
	f.stood = true
	f.setDirect()
}

// standsStill is for how long the queue pair at to takes nothing.
func (f *Fabric) standsStill(to Endpoint) time.Duration {
	p := f.ports[to.GID]
	if p == nil || p.qps[to.QPN] == nil {
		return 0
	}
	return max(0, p.qps[to.QPN].dev.still.Sub(f.clk.Now()))
}

func (f *Fabric) reportGone(dead *qp, left bool) {
	for _, q := range f.qps {
		if q == dead || q.vanished.Load() || q.dev.port.net != dead.dev.port.net {
			continue
		}
		fl := f.newFlight(goneFlight)
		fl.src, fl.to = q, q.endpoint()
		fl.dead, fl.deadQKey, fl.orderly = dead.src, dead.qkey, left
		f.depart(fl, f.after(dead, q))
	}
}

// forget takes a closed queue pair off the lists.
func (f *Fabric) forget(q *qp) {
	if p := q.dev.port; p.qps[q.qpn] == q && !q.vanished.Load() { // the dead stay dead
		delete(p.qps, q.qpn)
	}
	same := func(o *qp) bool { return o == q }
	q.dev.qps = slices.DeleteFunc(q.dev.qps, same)
	f.qps = slices.DeleteFunc(f.qps, same)
}

// after is in how long q may hear that gone has ended, after all that gone had sent to it or
// done with its requests. Of a death that is at once: it has left nothing that counts.
func (f *Fabric) after(gone, q *qp) time.Duration {
	now, last := f.clk.Now(), clock.Time(0)
	if gone.vanished.Load() {
		return 0
	}
	for _, fl := range f.flights {
		switch {
		case fl.what == requestFlight && fl.src == gone && fl.to == q.endpoint():
		case fl.what == statusFlight && fl.src == q && fl.to == gone.endpoint():
		default:
			continue
		}
		last = max(last, fl.at+1)
	}
	if last == 0 {
		return 0
	}
	return max(1, last.Sub(now)) // 0 would be before all that has a time
}
