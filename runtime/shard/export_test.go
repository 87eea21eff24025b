package shard

// Alone has a pinned shard lent to nobody, also where processors are few.
func Alone(c Config) Config {
	c.alone = true
	return c
}
