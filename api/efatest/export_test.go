package efatest

// QueueAll makes every message between actors of this world go through the ring of its
// shard, see [shard.Shard.QueueAll]. It is for devices that are still to be opened.
func (w *World) QueueAll() { w.queueAll = true }
