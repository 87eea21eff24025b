package efa_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

var costDevices = []string{"sim", "shm", "tcp"}

// costCase is an operation whose costs are counted.
type costCase struct {
	device, op string
	size       int
	memory     string
}

func (c costCase) String() string {
	return fmt.Sprintf("%s %s %d %s", c.device, c.op, c.size, c.memory)
}

// batch is how many of it are counted together.
func (c costCase) batch() int {
	if c.size > 100_000 {
		return 4
	}
	return 16
}

func costCases() (cs []costCase) {
	for _, dev := range costDevices {
		for _, op := range []string{"send", "write", "read"} {
			for _, size := range []int{8, 4 << 10, 16 << 10, 64 << 10, 1 << 20} {
				for _, memory := range []string{"slice", "Alloc"} {
					cs = append(cs, costCase{dev, op, size, memory})
				}
			}
		}
	}
	return cs
}

// bell is a device that counts the work requests and the doorbells of its queue pairs.
type bell struct {
	efa.Device
	rung, posted atomic.Uint64
}

type bellQP struct {
	device.QP
	d *bell
}

func (d *bell) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	return &bellQP{qp, d}, err
}

func (q *bellQP) Doorbell() {
	q.d.rung.Add(1)
	q.QP.Doorbell()
}

func (q *bellQP) PostSend(wr *device.SendWR) error {
	err := q.QP.PostSend(wr)
	if err == nil {
		q.d.posted.Add(1)
	}
	return err
}

// costSide is an endpoint on a device that counts, with the memory of its operations.
type costSide struct {
	bell   *bell
	fab    *efa.Fabric
	dom    *efa.Domain
	q      *efa.Queue
	ep     *efa.Endpoint
	peer   efa.Addr
	mr     *efa.MemoryRegion
	slices []byte
	cs     [8]efa.Completion
}

// costPair is two of them in one process, for which one goroutine works.
type costPair struct {
	sides    [2]*costSide
	protocol efa.Protocol // of the last operation
}

func openCostPair(kind, dir string) (*costPair, error) {
	fabric, err := sim.New(sim.Config{InOrder: true})
	if err != nil {
		return nil, err
	}
	open := map[string]func() (efa.Device, error){
		"sim": func() (efa.Device, error) {
			return fabric.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true})
		},
		"shm": func() (efa.Device, error) { return shm.Open(shm.Config{Dir: filepath.Join(dir, "fabric")}) },
		"tcp": func() (efa.Device, error) { return tcp.Open(tcp.Config{}) },
	}[kind]
	p := new(costPair)
	for i := range p.sides {
		dev, err := open()
		if err != nil {
			return nil, err
		}
		if p.sides[i], err = openCostSide(&bell{Device: dev}); err != nil {
			return nil, err
		}
	}
	a, b := p.sides[0], p.sides[1]
	if a.peer, err = a.ep.AddressVector().Insert(b.ep.Address()); err != nil {
		return nil, err
	}
	if b.peer, err = b.ep.AddressVector().Insert(a.ep.Address()); err != nil {
		return nil, err
	}
	// Each learns from the other's HANDSHAKE what it can do.
	for range p.sides {
		if err := p.warmUp(costCase{kind, "send", 8, "slice"}); err != nil {
			return nil, err
		}
		p.sides[0], p.sides[1] = p.sides[1], p.sides[0]
	}
	return p, nil
}

func openCostSide(dev *bell) (*costSide, error) {
	s := &costSide{bell: dev, slices: make([]byte, 1<<20)}
	var err error
	if s.fab, err = efa.Open(efa.Config{Device: dev}); err != nil {
		return nil, err
	}
	if s.dom, err = s.fab.OpenDomain(efa.DomainConfig{Progress: efa.ProgressManual}); err != nil {
		return nil, err
	}
	if s.q, err = s.dom.NewQueue(64); err != nil {
		return nil, err
	}
	if s.ep, err = s.dom.NewEndpoint(efa.EndpointConfig{SendQueue: s.q, RecvQueue: s.q}); err != nil {
		return nil, err
	}
	if s.mr, err = s.dom.Alloc(len(s.slices), remote|efa.AccessSend|efa.AccessRecv); err != nil {
		return nil, err
	}
	return s, s.ep.Enable(context.Background())
}

func (p *costPair) close() error {
	var errs []error
	for _, s := range p.sides {
		errs = append(errs, s.mr.Close(), s.ep.Close())
	}
	for _, s := range p.sides {
		errs = append(errs, s.dom.Close(), s.fab.Close(), s.bell.Close())
	}
	return errors.Join(errs...)
}

func (s *costSide) buffer(c costCase) []byte {
	if c.memory == "Alloc" {
		return s.mr.Bytes()[:c.size]
	}
	return s.slices[:c.size]
}

// warmUp does it until nothing more happens for the first time.
func (p *costPair) warmUp(c costCase) error {
	for range 5 * c.batch() {
		if err := p.once(c); err != nil {
			return err
		}
	}
	return nil
}

// once does one operation, from its posting to the last completion of both sides.
func (p *costPair) once(c costCase) error {
	a, b := p.sides[0], p.sides[1]
	ended := [2]int{1, 0}
	var err error
	switch c.op {
	case "send":
		if _, err = b.ep.PostRecv(&efa.RecvReq{Buf: b.buffer(c)}); err != nil {
			return err
		}
		ended[1] = 1
		_, err = a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: a.buffer(c)})
	case "write":
		_, err = a.ep.PostWrite(&efa.WriteReq{To: a.peer, At: b.mr.Remote(), Buf: a.buffer(c), Level: efa.Delivered})
	case "read":
		_, err = a.ep.PostRead(&efa.ReadReq{From: a.peer, At: b.mr.Remote(), Buf: a.buffer(c)})
	}
	if err != nil {
		return err
	}
	for began := clock.System.Now(); ended[0] > 0 || ended[1] > 0; {
		for i, s := range p.sides {
			n := s.q.TryRead(s.cs[:])
			ended[i] -= n
			for j := range s.cs[:n] {
				if err := s.cs[j].Err; err != nil {
					return err
				}
				p.protocol = s.cs[j].Protocol
			}
		}
		if clock.System.Now().Sub(began) > time.Minute {
			return fmt.Errorf("%s: no outcome within a minute", c)
		}
	}
	return nil
}
