package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// alone is two endpoints in one process, for which one goroutine works: what Go allocates
// is that of both sides then.
type alone struct {
	from, to *port
	queues   []*efa.Queue // of both
	protocol efa.Protocol // of the last operation
	close    []func() error
}

// port is an endpoint with the memory of its operations.
type port struct {
	endpoint *efa.Endpoint
	peer     efa.Addr
	region   *efa.MemoryRegion
	slice    []byte
}

// largest is the most that an operation moves.
const largest = 1 << 20

// openAlone opens two devices of a kind, or for sim one, on which both endpoints are.
func openAlone(ctx context.Context, device string) (a *alone, err error) {
	a = new(alone)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.end())
		}
	}()
	first, err := a.domain(device)
	if err != nil {
		return nil, err
	}
	second := first
	if device != "sim" {
		if second, err = a.domain(device); err != nil {
			return nil, err
		}
	}
	if a.from, err = a.port(ctx, first); err != nil {
		return nil, err
	}
	if a.to, err = a.port(ctx, second); err != nil {
		return nil, err
	}
	if a.from.peer, err = a.from.endpoint.AddressVector().Insert(a.to.endpoint.Address()); err != nil {
		return nil, err
	}
	a.to.peer, err = a.to.endpoint.AddressVector().Insert(a.from.endpoint.Address())
	return a, err
}

// opened is a domain with its queue.
type opened struct {
	domain *efa.Domain
	queue  *efa.Queue
}

func (a *alone) domain(device string) (o opened, err error) {
	cfg := efa.Config{DeviceName: device, Logger: quiet}
	if device == "sim" {
		if cfg.Device, err = openSim(); err != nil {
			return o, err
		}
		a.close = append(a.close, cfg.Device.Close)
	}
	f, err := efa.Open(cfg)
	if err != nil {
		return o, err
	}
	a.close = append(a.close, f.Close)
	if o.domain, err = f.OpenDomain(efa.DomainConfig{Progress: efa.ProgressManual}); err != nil {
		return o, err
	}
	a.close = append(a.close, o.domain.Close)
	o.queue, err = o.domain.NewQueue(spare)
	a.queues = append(a.queues, o.queue)
	return o, err
}

func openSim() (efa.Device, error) {
	f, err := sim.New(sim.Config{InOrder: true})
	if err != nil {
		return nil, err
	}
	return f.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true})
}

func (a *alone) port(ctx context.Context, o opened) (*port, error) {
	p := &port{slice: make([]byte, largest)}
	var err error
	p.endpoint, err = o.domain.NewEndpoint(efa.EndpointConfig{AV: o.domain.NewAddressVector(), SendQueue: o.queue, RecvQueue: o.queue})
	if err != nil {
		return nil, err
	}
	a.close = append(a.close, p.endpoint.Close)
	const access = efa.AccessRemoteRead | efa.AccessRemoteWrite | efa.AccessSend | efa.AccessRecv
	if p.region, err = o.domain.Alloc(largest, access); err != nil {
		return nil, err
	}
	a.close = append(a.close, p.region.Close)
	return p, p.endpoint.Enable(ctx)
}

// end closes everything, the last first.
func (a *alone) end() (err error) {
	for i := len(a.close) - 1; i >= 0; i-- {
		err = errors.Join(err, a.close[i]())
	}
	return err
}

// operation is something that one side does with the other.
type operation struct {
	op    string // send, write, read
	size  int
	alloc bool // memory of the domain, not a slice of Go's
	level efa.Level
}

func (o operation) memory(p *port) []byte {
	if o.alloc {
		return p.region.Bytes()[:o.size]
	}
	return p.slice[:o.size]
}

// once does an operation, from its posting to the last completion of both sides.
func (a *alone) once(ctx context.Context, o operation) (err error) {
	from, to, left := a.from, a.to, 1
	switch o.op {
	case "send":
		if _, err := to.endpoint.PostRecv(&efa.RecvReq{Buf: o.memory(to)}); err != nil {
			return err
		}
		left++
		_, err = from.endpoint.PostSend(&efa.SendReq{To: from.peer, Buf: o.memory(from), Level: o.level})
	case "write":
		_, err = from.endpoint.PostWrite(&efa.WriteReq{To: from.peer, At: to.region.Remote(), Buf: o.memory(from), Level: o.level})
	case "read":
		_, err = from.endpoint.PostRead(&efa.ReadReq{From: from.peer, At: to.region.Remote(), Buf: o.memory(from)})
	default:
		err = fmt.Errorf("%q: %w", o.op, errKind)
	}
	for err == nil && left > 0 {
		var n int
		if n, err = a.read(); n == 0 && err == nil {
			err = ctx.Err()
		}
		left -= n
	}
	return err
}

// read gives how many operations have ended.
func (a *alone) read() (ended int, err error) {
	var cs [8]efa.Completion
	for _, q := range a.queues {
		n := q.TryRead(cs[:])
		ended += n
		for i := range cs[:n] {
			if err := cs[i].Err; err != nil {
				return ended, err
			}
			a.protocol = cs[i].Protocol
		}
	}
	return ended, nil
}
