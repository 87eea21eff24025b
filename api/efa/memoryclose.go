package efa

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/shard"
)

// Close takes the region from the device and from its peers, and gives memory of
// Alloc back. Operations that the device or a peer carries out in it end, on both
// sides, if need be with an error, and so do sends and receives whose buffer lies in
// it; Close waits until they have. It is idempotent, and returns when the region is
// closed, also if another call closed it.
func (m *MemoryRegion) Close() (err error) {
	defer formed("close memory region", &err)
	m.mu.Lock()
	if m.state != regionOpen {
		m.mu.Unlock()
		return m.wait(func() bool { return m.state == regionClosed })
	}
	m.state = regionClosing
	m.mu.Unlock()

	// Each endpoint finds the region in use until it has looked for operations that
	// have it without saying so, and has made them say so.
	m.region.Use()
	m.region.Retire()
	for _, c := range m.dom.begun() {
		m.region.Share()
		c.control(func() {
			c.act.Load().Revoke(m.region)
			m.region.Done()
		})
	}
	for _, p := range m.dom.openPools() {
		m.region.Share()
		p.control(func() {
			p.act.Revoke(m.region)
			m.region.Done()
		})
	}
	m.region.Done()
	err = m.wait(func() bool { return m.idle })
	if err == nil {
		if err = m.region.Device().Close(); errors.Is(err, device.ErrClosed) {
			err = nil // the device was closed, and all its regions with it
		}
		m.unpin() // a driver that could not take the memory from its device still refers to it
		m.dom.leave(&m.dom.memory)
		m.dom.fab.regions.Add(-1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.err = regionClosed, err
	m.wake()
	return err
}

// wait returns when the condition holds, which is asked under mu.
func (m *MemoryRegion) wait(until func() bool) error {
	var sig shard.Signal
	sh := m.dom.busy()
	for {
		m.mu.Lock()
		if until() {
			err := m.err
			m.mu.Unlock()
			return err
		}
		sig.Reset()
		m.waiting = append(m.waiting, &sig)
		m.mu.Unlock()
		err := sh.Wait(context.Background(), &sig)
		m.mu.Lock()
		m.waiting = without(m.waiting, &sig)
		m.mu.Unlock()
		if err != nil {
			return fmt.Errorf("%w: memory region in use: %w", ErrClosed, err)
		}
	}
}

// onIdle: the region is retired and no operation uses it; any goroutine.
func (m *MemoryRegion) onIdle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = true
	m.wake()
}

// wake makes all who wait look again; under mu.
func (m *MemoryRegion) wake() {
	for _, s := range m.waiting {
		s.Set()
	}
}

// pins holds what keeps registered memory in its place. Regions that are never
// closed stay here, since a Pinner must not be collected before its Unpin.
var pins struct {
	sync.Mutex
	of map[*MemoryRegion]*runtime.Pinner
}

// pin keeps Go memory where it is. Other memory is left alone.
func (m *MemoryRegion) pin() {
	p := new(runtime.Pinner)
	p.Pin(unsafe.SliceData(m.mem))
	pins.Lock()
	defer pins.Unlock()
	if pins.of == nil {
		pins.of = make(map[*MemoryRegion]*runtime.Pinner)
	}
	pins.of[m] = p
}

func (m *MemoryRegion) unpin() {
	pins.Lock()
	defer pins.Unlock()
	if p := pins.of[m]; p != nil {
		p.Unpin()
		delete(pins.of, m)
	}
}
