package remote

import "time"

// PingEvery has a process ask the others so often whether they know it.
func (c Config) PingEvery(d time.Duration) Config {
	c.pingEvery = d
	return c
}
