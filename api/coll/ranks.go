package coll

import (
	"fmt"
	"slices"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/internal/errtext"
)

// Ranks is a set of ranks of a Comm, in an order that gives them their ranks in a group of
// their own (fi_av_set). It never has a rank twice. The functions that combine sets leave
// their operands as they are; a set is used by one goroutine at a time.
type Ranks struct {
	list []int
	has  map[int]int // where in list
}

// NewRanks is the set of the ranks given, in their order; of one that is given twice the
// first place counts.
func NewRanks(ranks ...int) *Ranks {
	s := &Ranks{has: make(map[int]int, len(ranks))}
	for _, r := range ranks {
		s.Insert(r)
	}
	return s
}

// Every is the set of every stride-th rank from first to last, both included. A stride
// below 1 is an error, and so is a range of negative ranks or one that ends before it begins.
func Every(stride, first, last int) (_ *Ranks, err error) {
	defer errtext.Wrap("coll", "ranks", &err)
	if stride < 1 || first < 0 || last < first {
		return nil, fmt.Errorf("%w: every %d ranks from %d to %d", efa.ErrInvalid, stride, first, last)
	}
	s := NewRanks()
	for r := first; r <= last; r += stride {
		s.Insert(r)
		if last-r < stride { // r+stride may be more than an int has
			break
		}
	}
	return s, nil
}

// Insert adds a rank as the last, and reports whether it was not there before.
func (s *Ranks) Insert(rank int) bool {
	if _, ok := s.has[rank]; ok {
		return false
	}
	s.has[rank] = len(s.list)
	s.list = append(s.list, rank)
	return true
}

// Remove takes a rank out, and reports whether it was there. The others keep their order.
func (s *Ranks) Remove(rank int) bool {
	i, ok := s.has[rank]
	if !ok {
		return false
	}
	s.list = slices.Delete(s.list, i, i+1)
	delete(s.has, rank)
	for ; i < len(s.list); i++ {
		s.has[s.list[i]] = i
	}
	return true
}

// Len is the number of ranks.
func (s *Ranks) Len() int { return len(s.list) }

// Has reports whether a rank is in the set.
func (s *Ranks) Has(rank int) bool { return s.Index(rank) >= 0 }

// Index is a rank's place in the set, from 0; -1 if it is not there.
func (s *Ranks) Index(rank int) int {
	if i, ok := s.has[rank]; ok {
		return i
	}
	return -1
}

// All lists the ranks in their order.
func (s *Ranks) All() []int { return slices.Clone(s.list) }

// Clone is a set of its own with the same ranks.
func (s *Ranks) Clone() *Ranks { return NewRanks(s.list...) }

// Union has the ranks of s, then those of t that s has not.
func (s *Ranks) Union(t *Ranks) *Ranks { return NewRanks(append(s.All(), t.list...)...) }

// Intersect has the ranks of s that t has, too, in their order in s.
func (s *Ranks) Intersect(t *Ranks) *Ranks { return s.where(t.Has) }

// Difference has the ranks of s that t has not, in their order in s.
func (s *Ranks) Difference(t *Ranks) *Ranks {
	return s.where(func(r int) bool { return !t.Has(r) })
}

func (s *Ranks) where(keep func(int) bool) *Ranks {
	u := NewRanks()
	for _, r := range s.list {
		if keep(r) {
			u.Insert(r)
		}
	}
	return u
}
