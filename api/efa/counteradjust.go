package efa

// Add counts n successes more, as if operations had ended (fi_cntr_add).
func (c *Counter) Add(n uint64) {
	c.ok.Add(n)
	c.notify()
}

// AddFailed counts n failures more (fi_cntr_adderr), of which Wait tells as of those of operations.
func (c *Counter) AddFailed(n uint64) {
	c.failed.Add(n)
	c.notify()
}

// Set makes v the successes (fi_cntr_set). What operations count at the same time is counted
// before or after that.
func (c *Counter) Set(v uint64) {
	c.ok.Store(v)
	c.notify()
}

// SetFailed makes v the failures (fi_cntr_seterr). They are known, as after Value: a Wait
// that is in progress ends with a *CounterError if v is another number than before, a later one only by
// further failures.
func (c *Counter) SetFailed(v uint64) {
	c.seen.Store(v)
	c.failed.Store(v)
	c.notify()
}
