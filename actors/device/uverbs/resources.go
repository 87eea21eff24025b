//go:build linux

package uverbs

import (
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// resources are what a queue pair has of the kernel and the device. They are made one
// after the other, and close frees those that there are, in the order in which the
// device's objects use each other.
type resources struct {
	ctx  *context
	maps mappings

	channel eventFile // noEvents: the device has none
	async   eventFile

	arena      []byte // receive slots, then what is sent from here
	reg        registration
	registered bool

	cq, qp       uint32
	hasCQ, hasQP bool
	number       uint16
}

// close frees everything. Memory that the device may still write to stays mapped.
func (r *resources) close() error {
	var errs []error
	busy := false
	if r.hasQP {
		err := r.ctx.destroy("queue pair", abi.ObjectQP, abi.QPDestroy, r.qp, abi.DestroyQPRespLen)
		errs, busy = append(errs, err), err != nil
	}
	if r.hasCQ {
		errs = append(errs, r.ctx.destroyCQ(r.cq))
	}
	errs = append(errs, r.channel.close(), r.async.close(), r.maps.close())
	if r.registered {
		err := r.ctx.deregister(r.reg)
		errs, busy = append(errs, err), busy || err != nil
	}
	switch {
	case r.arena == nil:
	case busy:
		r.ctx.abandon(r.arena)
	default:
		errs = append(errs, r.ctx.kernel.Unmap(r.arena))
	}
	*r = *newResources(r.ctx)
	return errors.Join(errs...)
}

// openMemory makes the arena, of n bytes, and tells the device of it.
func (r *resources) openMemory(n int) (err error) {
	if r.arena, err = r.ctx.kernel.Map(n); err != nil {
		return fmt.Errorf("%w: %d bytes: %w", device.ErrNoMemory, n, err)
	}
	r.reg, err = r.ctx.register(r.arena, device.LocalWrite)
	r.registered = err == nil
	return err
}

// openEvents makes the descriptors that become readable.
func (r *resources) openEvents() (err error) {
	if r.async, err = r.ctx.createAsync(); err != nil {
		return err
	}
	if r.ctx.can(abi.DeviceNotify) && r.ctx.vectors > 0 {
		r.channel, err = r.ctx.createChannel()
	}
	return err
}

// openCQ makes the completion queue, for at least n completions.
func (r *resources) openCQ(n int, vector uint32) (*completionQueue, error) {
	handle, deep, resp, err := r.ctx.createCQ(n, r.channel, r.async, vector)
	r.cq, r.hasCQ = handle, err == nil || errors.Is(err, errLies)
	if err != nil {
		return nil, err
	}
	q, err := r.ctx.mapCQ(&r.maps, deep, &resp)
	if err == nil && r.channel != noEvents && q.db == nil {
		err = fmt.Errorf("%w: events without a doorbell", errLies)
	}
	return q, err
}

// geometry is the shape of a queue pair's rings.
type geometry struct {
	sq, rq int // entries, powers of two
	wqe    int // bytes
	inline int // bytes in a WQE
	sges   int // pieces of memory that a send is gathered from, 1 or 2
}

// create makes the queue pair's object.
func (r *resources) create(g geometry, datagram bool) (resp abi.CreateQPResp, err error) {
	c := r.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	caps := abi.QPCap{
		MaxSendWR: uint32(g.sq), MaxRecvWR: uint32(g.rq), MaxInline: uint32(g.inline),
		MaxSendSGE: uint32(g.sges), MaxRecvSGE: 1,
	}
	in := abi.CreateQP{RQSize: uint32(g.rq * abi.RxDescLen), SQSize: uint32(g.sq * g.wqe), DriverType: abi.DriverQPTypeSRD}
	kind := uint64(abi.QPTypeDriver)
	if datagram {
		kind = abi.QPTypeUD
	} else if c.unsolicited {
		in.Flags = abi.QPUnsolicitedWrite
	}
	c.cmd.begin(abi.ObjectQP, abi.QPCreate)
	made := c.cmd.made(abi.CreateQPHandle)
	c.cmd.object(abi.CreateQPPD, uint64(c.pd))
	c.cmd.object(abi.CreateQPSendCQ, uint64(r.cq))
	c.cmd.object(abi.CreateQPRecvCQ, uint64(r.cq))
	c.cmd.u64(abi.CreateQPUserHandle, userHandle)
	c.cmd.in(abi.CreateQPCaps, caps.Append(nil))
	c.cmd.u64(abi.CreateQPType, kind)
	c.cmd.u32(abi.CreateQPFlags, abi.QPAllSignalled)
	if r.async != noEvents {
		c.cmd.object(abi.CreateQPAsync, uint64(r.async))
	}
	_ = c.cmd.out(abi.CreateQPRespCaps, abi.QPCapLen)
	number := c.cmd.out(abi.CreateQPRespNumber, 4)
	c.cmd.in(abi.AttrUHWIn, in.Append(nil))
	out := c.cmd.out(abi.AttrUHWOut, abi.CreateQPRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return resp, fmt.Errorf("uverbs: queue pair of %d and %d: %w", g.sq, g.rq, err)
	}
	r.qp, r.hasQP = uint32(made()), true
	_ = resp.Parse(out)
	n := le.Uint32(number)
	if n > 1<<16-1 || resp.SendSubCQ >= c.limits.SubCQs || resp.RecvSubCQ >= c.limits.SubCQs {
		return resp, fmt.Errorf("%w: queue pair %#x, %+v", errLies, n, resp)
	}
	r.number = uint16(n)
	return resp, nil
}

// mapSQ maps the descriptors of the send queue and its doorbell.
func (r *resources) mapSQ(g geometry, resp *abi.CreateQPResp) (llq []byte, db *uint32, err error) {
	n, off := uint64(g.sq*g.wqe), uint64(resp.LLQOff)
	if off%abi.WQELen != 0 || off >= pageAlign(1) {
		return nil, nil, fmt.Errorf("%w: descriptors at %d of their page", errLies, off)
	}
	mem, err := r.maps.add("send queue", resp.LLQKey, pageAlign(n+off), unix.PROT_WRITE)
	if err != nil {
		return nil, nil, err
	}
	db, err = r.maps.doorbell("doorbell of sends", resp.SQDoorbellKey, resp.SQDoorbellOff)
	return mem[off : off+n : off+n], db, err
}

// mapRQ maps the descriptors of the receive queue and its doorbell.
func (r *resources) mapRQ(g geometry, resp *abi.CreateQPResp) (descs []byte, db *uint32, err error) {
	n := uint64(g.rq * abi.RxDescLen)
	if resp.RQSize < n {
		return nil, nil, fmt.Errorf("%w: %d receives in %d bytes", errLies, g.rq, resp.RQSize)
	}
	mem, err := r.maps.add("receive queue", resp.RQKey, resp.RQSize, unix.PROT_WRITE)
	if err != nil {
		return nil, nil, err
	}
	db, err = r.maps.doorbell("doorbell of receives", resp.RQDoorbellKey, resp.RQDoorbellOff)
	return mem[:n:n], db, err
}

// start takes the queue pair to the state in which it sends.
func (r *resources) start(qkey uint32, rnrRetry uint8, datagram bool) error {
	rts := abi.ModifyQP{Mask: abi.AttrState | abi.AttrSQPSN, State: abi.QPRTS}
	if !datagram && r.ctx.can(abi.DeviceRNRRetry) {
		rts.Mask, rts.RNRRetry = rts.Mask|abi.AttrRNRRetry, rnrRetry
	}
	for _, m := range []abi.ModifyQP{
		{
			Mask: abi.AttrState | abi.AttrPkey | abi.AttrPort | abi.AttrQKey, State: abi.QPInit,
			Port: abi.PortNumber, QKey: qkey,
		},
		{Mask: abi.AttrState, State: abi.QPRTR},
		rts,
	} {
		m.Handle = r.qp
		if err := r.ctx.modify(&m); err != nil {
			return err
		}
	}
	return nil
}

// logOf is the logarithm of a power of two.
func logOf(n int) uint8 { return uint8(bits.TrailingZeros(uint(n))) }
