package efa

import (
	"sync"
	"sync/atomic"
)

// news is the handles that were inserted and that the shard has not heard of yet. It hears of
// them by a request, which comes too late for a turn that has looked for requests already, and
// then takes up a packet that was sent after Insert had returned. So the shard looks here, too,
// before it says that a packet is of nobody in the address vector.
type news struct {
	any     atomic.Bool
	mu      sync.Mutex
	handles []Addr
}

func (n *news) add(hs []Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handles = append(n.handles, hs...)
	n.any.Store(true)
}

func (n *news) take() []Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	hs := n.handles
	n.handles = nil
	n.any.Store(false)
	return hs
}

// inserted tells the endpoint of new handles.
func (e *Endpoint) inserted(hs []Addr) {
	if e.live() != nil {
		return
	}
	e.news.add(hs)
	e.control(e.tellNews)
}

// tellNews passes on what the shard has not heard yet. Runs on the shard.
func (e *Endpoint) tellNews() {
	if !e.news.any.Load() {
		return
	}
	for _, h := range e.news.take() {
		if h < NoAddr {
			e.act.Load().Insert(uint64(h), 1)
		}
	}
}
