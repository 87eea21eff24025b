package match

import "math/bits"

const (
	minBuckets  = 16
	keepBuckets = 1 << 16 // an index that ran empty frees more
)

// node is the place of a T in an index. Nodes of equal key form a ring by rising
// stamp; the oldest, the lead, stands for them all in the chain of its bucket.
type node[T any] struct {
	owner *T
	in    *class // nil: in no index
	tag   uint64 // key, ignored bits cleared
	src   Source // key, AnySource if the class isn't directed
	stamp uint64

	prev, next *node[T]  // ring
	chain      *node[T]  // lead only: the next lead of the bucket
	slot       **node[T] // lead only: the pointer to it, in a bucket or a chain
}

// index is a hash table of rings. The zero index is empty; seed is set before use.
type index[T any] struct {
	buckets []*node[T] // a power of two, or none
	keys    int        // leads
	seed    uint64
}

// hash folds two multiplications, as wyhash does.
func hash(seed, tag uint64, src Source) uint64 {
	hi, lo := bits.Mul64(tag^seed, 0x9e3779b97f4a7c15)
	hi, lo = bits.Mul64(hi^lo^uint64(src), 0xd6e8feb86659fd93)
	return hi ^ lo
}

func (x *index[T]) bucket(tag uint64, src Source) **node[T] {
	return &x.buckets[hash(x.seed, tag, src)&uint64(len(x.buckets)-1)]
}

// first returns the oldest node of a key, or nil.
func (x *index[T]) first(tag uint64, src Source) *node[T] {
	if x.keys == 0 {
		return nil
	}
	return (*x.bucket(tag, src)).leadOf(tag, src)
}

// leadOf searches a chain.
func (n *node[T]) leadOf(tag uint64, src Source) *node[T] {
	for n != nil && (n.tag != tag || n.src != src) {
		n = n.chain
	}
	return n
}

// insert adds n, whose key and stamp are set, to the ring of its key.
func (x *index[T]) insert(n *node[T]) {
	if x.keys == len(x.buckets) {
		x.grow()
	}
	bucket := x.bucket(n.tag, n.src)
	lead := (*bucket).leadOf(n.tag, n.src)
	if lead == nil {
		n.prev, n.next = n, n
		n.linkAt(bucket)
		x.keys++
		return
	}
	after := lead.prev // the youngest; n is younger still, unless it was rekeyed
	if n.stamp < lead.stamp {
		n.replace(lead)
	} else {
		for after.stamp > n.stamp {
			after = after.prev
		}
	}
	n.prev, n.next = after, after.next
	n.prev.next, n.next.prev = n, n
}

// remove takes out n. A ring that loses its lead has the next oldest stand for it.
func (x *index[T]) remove(n *node[T]) {
	switch {
	case n.next == n:
		*n.slot = n.chain
		if n.chain != nil {
			n.chain.slot = n.slot
		}
		x.keys--
		if x.keys == 0 && len(x.buckets) > keepBuckets {
			x.buckets = nil // release what a flood left behind
		}
	case n.slot != nil:
		n.next.replace(n)
		fallthrough
	default:
		n.prev.next, n.next.prev = n.next, n.prev
	}
	*n = node[T]{}
}

// linkAt makes n the first lead of a bucket.
func (n *node[T]) linkAt(bucket **node[T]) {
	n.slot, n.chain = bucket, *bucket
	if n.chain != nil {
		n.chain.slot = &n.chain
	}
	*bucket = n
}

// replace puts n into the place that old, a lead, has in its chain.
func (n *node[T]) replace(old *node[T]) {
	n.slot, n.chain = old.slot, old.chain
	old.slot, old.chain = nil, nil
	*n.slot = n
	if n.chain != nil {
		n.chain.slot = &n.chain
	}
}

// grow doubles the buckets, so that there are at least as many as keys.
func (x *index[T]) grow() {
	old := x.buckets
	x.buckets = make([]*node[T], max(minBuckets, 2*len(old)))
	for _, n := range old {
		for n != nil {
			next := n.chain
			n.linkAt(x.bucket(n.tag, n.src))
			n = next
		}
	}
}
