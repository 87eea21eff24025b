package efatest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
)

// open registers the memory of a host, or does without what the device refuses.
func (r *run) open(h *host, hp *hostPlan) error {
	var err error
	if hp.pool > 0 {
		if h.pool.region, h.pool.rest, err = h.register(hp.pool, hp.allocs, 0); err != nil {
			return fmt.Errorf("memory for buffers: %w", err)
		}
	}
	h.stores = hp.stores
	for i, s := range hp.stores {
		if s.region, s.mem, err = h.register(s.size, s.allocs, s.access); err != nil {
			return fmt.Errorf("store %d: %w", i, err)
		}
		if s.region == nil {
			r.stats["unregistered"]++
			continue
		}
		for _, x := range s.slots {
			model.Fill(s.of(x), x.first)
		}
		if c := s.cells; c != nil {
			clear(s.mem[c.at:][:c.count*c.size()])
		}
		s.key = uint64(s.host<<8|i+1) * 0x9E3779B97F4A7C15 & efa.MaxKey
		if _, err := s.region.Export(efa.Export{Key: s.key, Access: s.access}); err != nil {
			return fmt.Errorf("store %d: %w", i, err)
		}
		r.w.Logf("store %d of host %d: %v, access %d", i, s.host, s.region.Remote(), s.access)
	}
	return nil
}

// of is a slot's memory.
func (s *store) of(x *slot) []byte { return s.mem[x.at:][:x.Len] }

// register makes a region of n bytes, full of poison; none if the device refuses.
func (h *host) register(n int, allocs bool, a efa.Access) (*efa.MemoryRegion, []byte, error) {
	var m *efa.MemoryRegion
	var err error
	if allocs {
		m, err = h.dom.Alloc(n, a)
	} else {
		m, err = h.dom.Register(make([]byte, n), a)
	}
	if errors.Is(err, efa.ErrNoMR) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	fillPoison(m.Bytes())
	return m, m.Bytes(), nil
}

// closeStores closes the stores that are due. Operations in progress in them end.
func (r *run) closeStores() {
	for i, hp := range r.p.hosts {
		if hp == nil || r.hosts[i] == nil {
			continue
		}
		for _, s := range hp.stores {
			if s.closeAt == 0 || s.closeAt > r.sent || s.closing || s.region == nil || r.hosts[i].closed {
				continue
			}
			s.closing = true
			r.w.Go(fmt.Sprintf("close a store of host %d", i), func(context.Context) error { return r.closeStore(s) })
		}
	}
}

// closeStore closes a store during the run. Afterwards it must not be touched.
func (r *run) closeStore(s *store) error {
	if err := s.region.Close(); err != nil {
		return fmt.Errorf("close a store: %w", err)
	}
	r.stats["store closed"]++
	r.w.Logf("a store of host %d is closed", s.host)
	if !s.allocs {
		fillPoison(s.mem)
	}
	return nil
}

// checkStores compares the memory of a host with the model, and closes it.
func (r *run) checkStores(h *host, lost bool) {
	for i, s := range h.stores {
		if s.region == nil {
			continue
		}
		switch {
		case s.closing && !s.allocs && !isPoison(s.mem):
			r.fail("host %d: store %d was written after it had been closed", s.host, i)
		case !s.closing && !lost:
			r.checkStore(s, i)
		}
		if err := s.region.Close(); err != nil {
			r.fail("host %d: close store %d: %w", s.host, i, err)
		}
	}
	if m := h.pool.region; m != nil {
		h.pool.check(r)
		if !isPoison(h.pool.rest) {
			r.fail("somebody wrote to memory that was never lent")
		}
		if err := m.Close(); err != nil {
			r.fail("close the memory for buffers: %w", err)
		}
	}
}

func (r *run) checkStore(s *store, i int) {
	now := r.tick()
	for k, x := range s.slots {
		if err := x.Judge(s.of(x), 0, now, now); err != nil {
			r.fail("host %d, store %d, slot %d of %d: %w", s.host, i, k, x.writer, err)
		}
		fillPoison(s.of(x))
	}
	if c := s.cells; c != nil {
		r.checkCells(s, c)
		fillPoison(s.mem[c.at:][:c.count*c.size()])
	}
	if !isPoison(s.mem) {
		r.fail("host %d, store %d: something was written between slots", s.host, i)
	}
}
