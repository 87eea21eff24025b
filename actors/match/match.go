package match

// Source is where a message came from, as a handle of the address vector, or
// which source a receive accepts.
type Source uint64

const (
	// AnySource is the source of a receive that takes messages from all senders.
	AnySource Source = ^Source(0)
	// NotAvail is the source of a sender that is in no address vector: its messages
	// match AnySource and nothing else, and a receive from NotAvail matches
	// nothing.
	NotAvail Source = AnySource - 1
)

// known reports whether a directed receive can name the sender.
func (s Source) known() bool { return s < NotAvail }

// Kind is one of the two disjoint matching spaces.
type Kind uint8

// The kinds. Tags and ignore masks play no part in Untagged.
const (
	Untagged Kind = iota
	Tagged
)

const numKinds = 2

// KindOf returns the kind of a message or receive, tagged or not.
func KindOf(tagged bool) Kind {
	if tagged {
		return Tagged
	}
	return Untagged
}

func (k Kind) String() string {
	if k == Untagged {
		return "untagged"
	}
	return "tagged"
}

// Recv is a posted receive, embedded in the waiting operation. While it is in a
// table its owner neither moves it nor changes its fields.
type Recv struct {
	Kind   Kind
	Many   bool  // it takes message after message, until RemoveRecv
	Owner  int32 // the caller's, opaque here
	Tag    uint64
	Ignore uint64 // bits of Tag that don't matter
	Source Source // AnySource, or the only sender to receive from

	stamp      uint64 // 0: in no table
	prev, next *Recv  // in the space's queue
	class      *class // nil: not filed
	in         *space // nil: in no table
	chain      *Recv  // lead only: the next lead of the chain
	// The ring of the filed receives with its key, by posting; nil if it is the only one.
	older, newer *Recv
}

// Msg is an unexpected message, embedded in the struct that keeps it. While it is
// in a table its owner neither moves it nor changes its fields; see [Table.Rekey].
type Msg struct {
	Kind   Kind
	Tag    uint64
	Source Source // NotAvail: its sender is in no address vector
	Owner  int32  // the caller's, opaque here

	in      *space // nil: in no table
	order   link
	entries *entry // its places in the indexes, one for each
	own     entry  // the first of them; further ones come from the pool
}

// filter is what a receive accepts.
type filter struct {
	tag    uint64
	ignore uint64
	src    Source
}

// newFilter makes a filter in which untagged is a tag of which no bit matters.
func newFilter(k Kind, tag, ignore uint64, src Source) filter {
	if k == Untagged {
		tag, ignore = 0, ^uint64(0)
	}
	return filter{tag: tag, ignore: ignore, src: src}
}

// ignored returns the bits of a tag that don't matter.
func (r *Recv) ignored() uint64 {
	if r.Kind == Untagged {
		return ^uint64(0)
	}
	return r.Ignore
}

func (r *Recv) filter() filter { return newFilter(r.Kind, r.Tag, r.Ignore, r.Source) }

// takes reports whether the receive accepts a message of its kind with this tag and sender.
func (r *Recv) takes(tag uint64, src Source) bool {
	return (r.Kind == Untagged || (r.Tag^tag)&^r.Ignore == 0) && (r.Source == AnySource || r.Source == src && src.known())
}

func (f filter) directed() bool { return f.src != AnySource }

func (f filter) matches(tag uint64, src Source) bool {
	return (f.tag^tag)&^f.ignore == 0 && (f.src == AnySource || f.src == src && src.known())
}

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
