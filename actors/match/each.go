package match

// series is what a cursor walks: elements by rising stamp, which is 0 for one that is taken out.
type series[T any] interface {
	oldest() *T
	after(*T) *T
	stampOf(*T) uint64
}

// cursor walks a series that changes under it.
type cursor[T any] struct {
	of    series[T]
	at    *T     // next to visit, nil at the end
	stamp uint64 // of at, when it was noted
}

func (c *cursor[T]) moveTo(x *T) {
	c.at = x
	if x != nil {
		c.stamp = c.of.stampOf(x)
	}
}

// settle finds the first element after done again if at has left its place.
func (c *cursor[T]) settle(done uint64) {
	if c.at == nil || c.of.stampOf(c.at) == c.stamp {
		return
	}
	x := c.of.oldest()
	for x != nil && c.of.stampOf(x) <= done {
		x = c.of.after(x)
	}
	c.moveTo(x)
}

// each calls f for the elements of a and b, by rising stamp up to last, until f
// returns false. f may add and remove.
func each[T any](a, b series[T], last uint64, f func(*T) bool) {
	x, y := cursor[T]{of: a}, cursor[T]{of: b}
	x.moveTo(a.oldest())
	y.moveTo(b.oldest())
	for done := uint64(0); ; {
		x.settle(done)
		y.settle(done)
		c := &x
		if x.at == nil || y.at != nil && y.stamp < x.stamp {
			c = &y
		}
		if c.at == nil || c.stamp > last {
			return
		}
		done = c.stamp
		at := c.at
		c.moveTo(c.of.after(at))
		if !f(at) {
			return
		}
	}
}
