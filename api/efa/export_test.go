package efa

import "runtime"

// QueueAll makes every message between actors of a domain with manual progress go
// through the rings of its shards, see [shard.Shard.QueueAll].
func (d *Domain) QueueAll() {
	for _, s := range d.shards {
		for !s.Claim() {
			runtime.Gosched()
		}
		s.QueueAll()
		s.Release()
	}
}
