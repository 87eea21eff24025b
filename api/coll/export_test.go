package coll

// LeaveContexts has all but n of the free context ids taken in this process.
func LeaveContexts(c *Comm, n int) {
	for id := range uint64(maxContexts) {
		if c.family.ids.take(id) && n > 0 {
			c.family.ids.free(id)
			n--
		}
	}
}

// ID is the context id of a group.
func (c *Comm) ID() uint64 { return c.id }

// Fails reports whether a rank's failure was met, perhaps before calls end.
func Fails(c *Comm) bool { return c.claim.Load() != nil }
