package direct

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
)

// local is the buffer of an RDMA request, and its key where the device wants one. A buffer
// in no region gets one of its own for the time of the request; no bytes lie in a region that
// the port has for that.
func (p *Port) local(o *op) (mem []byte, lkey uint32, err error) {
	r := &o.req
	if !p.info.LocalKeys {
		return r.Buf, 0, nil
	}
	if len(r.Buf) == 0 {
		return p.nothing()
	}
	if x := p.cfg.Regions.Find(r.Buf); x != nil && (r.Kind == ope.KindWrite || writable(x)) && x.Use() {
		o.used = x
		return r.Buf, x.LKey(0), nil
	}
	access := device.LocalWrite
	if r.Kind == ope.KindWrite {
		access = 0
	}
	if o.own, err = p.register(func() (device.MR, error) { return p.cfg.Device.Register(r.Buf, access) }); err != nil {
		return nil, 0, err
	}
	return r.Buf, o.own.LKey(), nil
}

func writable(x *mr.Region) bool { return x.Access()&(device.LocalWrite|device.RemoteWrite) != 0 }

// nothing is no bytes of registered memory.
func (p *Port) nothing() (mem []byte, lkey uint32, err error) {
	if p.empty == nil {
		if p.empty, err = p.register(func() (device.MR, error) { return p.cfg.Device.Alloc(1, device.LocalWrite) }); err != nil {
			return nil, 0, err
		}
	}
	return p.empty.Bytes()[:0], p.empty.LKey(), nil
}

func (p *Port) register(by func() (device.MR, error)) (m device.MR, err error) {
	if err = device.Guard(func() (err error) { m, err = by(); return err }); err != nil {
		return nil, fmt.Errorf("%w: register the buffer: %w", errno.ErrNoMR, err)
	}
	return m, nil
}

// unregister ends what register began; nil is nothing.
func (p *Port) unregister(m device.MR) {
	if m == nil {
		return
	}
	if err := device.Guard(m.Close); err != nil {
		p.cfg.Log.Warn("close the region of a request", "err", err)
	}
}
