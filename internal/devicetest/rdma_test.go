package devicetest

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
)

func (d faultyDevice) Register(mem []byte, a device.Access) (device.MR, error) {
	return d.changed(a, func(a device.Access) (device.MR, error) { return d.Device.Register(mem, a) })
}

func (d faultyDevice) Alloc(n int, a device.Access) (device.MR, error) {
	return d.changed(a, func(a device.Access) (device.MR, error) { return d.Device.Alloc(n, a) })
}

// changed makes a region with other rights than asked for, or another region.
func (d faultyDevice) changed(a device.Access, open func(device.Access) (device.MR, error)) (device.MR, error) {
	if d.at.access != nil {
		d.at.access(&a)
	}
	mr, err := open(a)
	if err != nil || d.at.region == nil {
		return mr, err
	}
	return d.at.region(mr), nil
}

// openRegion stays open at the first Close.
type openRegion struct {
	device.MR
	closed bool
}

func (r *openRegion) Close() error {
	if r.closed {
		return device.ErrClosed
	}
	r.closed = true
	return nil
}

// twiceRegion claims that it can be closed any number of times.
type twiceRegion struct{ device.MR }

func (r twiceRegion) Close() error {
	_ = r.MR.Close()
	return nil
}

// countedKey has keys that can be guessed.
type countedKey struct {
	device.MR
	key uint64
}

func (r countedKey) RKey() uint64 { return r.key }

// samePlace has the address of all others.
type samePlace struct{ device.MR }

func (r samePlace) Addr() uint64 { return 4096 }

// onRDMA changes requests of RDMA.
func onRDMA(change func(*device.SendWR)) func(*faulty, device.SendWR) error {
	return func(q *faulty, wr device.SendWR) error {
		if wr.Kind != device.WRSend {
			change(&wr)
		}
		return q.QP.PostSend(&wr)
	}
}

// completes changes the status of completions.
func completes(from, to device.Status) func(*faulty, *device.Completion) {
	return func(_ *faulty, c *device.Completion) {
		if c.Op == device.OpSend && c.Status == from {
			c.Status = to
		}
	}
}

var rdmaFlaws = map[string]*flaw{
	"moves nothing": {caseName: "RDMA/sizes", send: onRDMA(func(wr *device.SendWR) {
		wr.Payload = wr.Payload[:0]
	})},
	"writes where it should read": {caseName: "RDMA/self", send: onRDMA(func(wr *device.SendWR) {
		wr.Kind = device.WRWrite
		wr.Payload = wr.Payload[:len(wr.Payload)/2]
	})},
	"aligns addresses": {caseName: "RDMA/unaligned", send: onRDMA(func(wr *device.SendWR) { wr.Remote &^= 7 })},
	"cuts what is too long": {caseName: "RDMA/longest", send: onRDMA(func(wr *device.SendWR) {
		wr.Payload = wr.Payload[:min(len(wr.Payload), 100_000)]
	})},
	"takes unknown kinds": {caseName: "RDMA/unsupported", send: func(q *faulty, wr device.SendWR) error {
		if wr.Kind > device.WRWrite {
			wr.Kind = device.WRWrite
		}
		return q.QP.PostSend(&wr)
	}},
	"closes regions twice":       {caseName: "Regions", region: func(mr device.MR) device.MR { return twiceRegion{mr} }},
	"has a queue for RDMA alone": {caseName: "RDMA/queue", config: func(c *device.QPConfig) { c.SQDepth += 2 }},
	"needs no local keys": {
		caseName:  "RDMA/keys",
		abilities: func(dc *sim.DeviceConfig) { dc.LocalKeys = true },
		seen:      completes(device.StatusInvalidLKey, device.StatusOK),
	},
	"counts keys": {caseName: "RegionKeys", region: func() func(device.MR) device.MR {
		key := uint64(0)
		return func(mr device.MR) device.MR {
			key += 0x10001
			return countedKey{mr, key}
		}
	}()},
	"has one address": {caseName: "RegionAddresses", region: func(mr device.MR) device.MR { return samePlace{mr} }},
	"forgets to close regions": {caseName: "RegionsKeepDeviceOpen", region: func(mr device.MR) device.MR {
		return &openRegion{MR: mr}
	}},
	"knows no rights":     {caseName: "Rights/table", access: func(a *device.Access) { *a = allAccess }},
	"keeps regions alive": {caseName: "RDMARefused/closed", region: func(mr device.MR) device.MR { return &openRegion{MR: mr} }},
	"allows too much":     {caseName: "RDMARefused/key", seen: completes(device.StatusBadAddress, device.StatusOK)},
	"wraps around":        {caseName: "RDMARefused/range", seen: completes(device.StatusBadAddress, device.StatusUnresponsive)},
	"forgets whom it refused": {caseName: "RDMARefused/reported", seen: func(_ *faulty, c *device.Completion) {
		if c.Op == device.OpRefused {
			c.SrcQPN = 0
		}
	}},
	"reaches other Q_Keys": {caseName: "RDMARefused/destination", send: onRDMA(func(wr *device.SendWR) { wr.QKey = 77 })},
	"loses immediates":     {caseName: "Immediate/message", seen: func(_ *faulty, c *device.Completion) { c.HasImm = false }},
	"mangles immediates":   {caseName: "Immediate/write", seen: func(_ *faulty, c *device.Completion) { c.Imm &= 0xffff }},
	"posts written slots by itself": {caseName: "Immediate/slot", seen: func(q *faulty, c *device.Completion) {
		if c.Op == device.OpWritten {
			q.QP.PostRecv([]int32{int32(c.ID)})
		}
	}},
	"takes no slot for writes":  {caseName: "Immediate/RNR", seen: completes(device.StatusRNR, device.StatusOK)},
	"does not try writes again": {caseName: "Immediate/cured", config: func(c *device.QPConfig) { c.RNRRetry = 0 }},
	"takes slots for writes": {
		caseName:  "Immediate/unsolicited",
		abilities: func(dc *sim.DeviceConfig) { dc.UnsolicitedWrite = true },
		seen: func(_ *faulty, c *device.Completion) {
			if c.Op == device.OpWritten {
				c.ID = 0
			}
		},
	},
	"wakes nobody": {caseName: "Immediate/wakes", config: func(c *device.QPConfig) { c.Notify = nil }},
	"completes writes that were not made": {caseName: "RDMA/besideMessages", send: onRDMA(func(wr *device.SendWR) {
		if wr.Kind == device.WRWrite && wr.ID > 50 {
			wr.Payload = nil
		}
	})},
	"reads elsewhere":        {caseName: "RDMA/manyReaders", send: onRDMA(func(wr *device.SendWR) { wr.Remote &^= 1 })},
	"reads what was closed":  {caseName: "RDMAEnds/region", region: func(mr device.MR) device.MR { return &openRegion{MR: mr} }},
	"writes what was closed": {caseName: "RDMAEnds/written", seen: completes(device.StatusOK, device.StatusQPInternal)},
	"stays open to RDMA":     {caseName: "RDMAEnds/receiver", closing: func(*faulty) error { return device.ErrClosed }},
	"finds the dead well at RDMA": {
		caseName: "RDMAEnds/death",
		seen:     func(_ *faulty, c *device.Completion) { c.Status = device.StatusOK },
	},
	"allocates for RDMA": {caseName: "RDMA/noAllocations", send: func(q *faulty, wr device.SendWR) error {
		q.sink = make([]byte, 64)
		return q.QP.PostSend(&wr)
	}},
}
