package efa

import (
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
)

// ofServed is what the endpoint's actor tells of peers' accesses; nil: nobody wants to know.
func (v *events) ofServed(cfg *EndpointConfig) func(*endpoint.Served) {
	if !cfg.RMAEvents && cfg.RemoteReadCounter == nil {
		return nil
	}
	return func(s *endpoint.Served) { v.served(cfg, s) }
}

// served runs on the shard when a peer's access was carried out.
func (v *events) served(cfg *EndpointConfig, s *endpoint.Served) {
	read := s.Access == device.RemoteRead
	c := cfg.RemoteWriteCounter
	if read {
		c = cfg.RemoteReadCounter
	} else if s.HasData || !cfg.RMAEvents {
		c = nil // onWritten counts it, or nobody
	}
	if c != nil {
		c.count(s.N, nil)
	}
	if !cfg.RMAEvents {
		return
	}
	for i, r := range s.Regions {
		if !slices.Contains(s.Regions[:i], r) {
			if served := r.OnServed.Load(); served != nil {
				(*served)(read, s.N)
			}
		}
	}
	if s.HasData {
		return
	}
	ev := v.event(endpoint.Event{Kind: RemoteServed, Handle: s.Handle, Addr: *s.From, Path: s.Path})
	if ev.N, ev.Access = s.N, AccessRemoteWrite; read {
		ev.Access = AccessRemoteRead
	}
	v.add(ev)
}

// CountRemote counts what peers do to the region: their reads of it, and atomics that fetch, in
// reads, and writes with and without data, and other atomics, in writes; see EndpointConfig.RMAEvents, which
// the endpoint must have. nil: they are not counted. An access of several regions counts in each, with
// all of its bytes. The counters must be of the region's domain, else the error is ErrDomain.
// Counter.Wait works as long as some endpoint uses the counter as well.
func (m *MemoryRegion) CountRemote(reads, writes *Counter) error {
	for _, c := range []*Counter{reads, writes} {
		if c != nil && c.dom != m.dom {
			return ErrDomain
		}
	}
	served := func(read bool, n int) {
		c := writes
		if read {
			c = reads
		}
		if c != nil {
			c.count(n, nil)
		}
	}
	m.region.OnServed.Store(&served)
	return nil
}
