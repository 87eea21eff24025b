package coll

// Option changes how a collective is done: given to a call it holds for that call,
// given to Comm.With for a view of the group, in Config for all. It must be the
// same on all ranks.
type Option struct {
	kind  optionKind
	name  string
	bytes int
}

type optionKind uint8

const (
	optUse optionKind = iota + 1
	optNonCommutative
	optSegment
)

// NonCommutative has the operator applied in the order of the ranks, see [Op].
var NonCommutative = Option{kind: optNonCommutative}

// Use names the algorithm to take instead of the one that fits: for tests and
// measurements. Collectives that have no algorithm of this name, or cannot use
// it (not every one is for every number of ranks, or for operators that do not
// commute), take no notice. [Algorithms] lists the names.
func Use(algorithm string) Option { return Option{kind: optUse, name: algorithm} }

// Segment is how many bytes go in one piece where long messages are cut into
// pieces, so that the next one moves while this one is worked upon; at least 64
// KiB, 0: a size that stays in cache.
func Segment(bytes int) Option { return Option{kind: optSegment, bytes: bytes} }

// settings are options put together.
type settings struct {
	use     string
	ordered bool
	segment int
}

func (s *settings) apply(opts []Option) {
	for i := range opts {
		switch o := &opts[i]; o.kind {
		case optUse:
			s.use = o.name
		case optNonCommutative:
			s.ordered = true
		case optSegment:
			s.segment = o.bytes
		}
	}
}
