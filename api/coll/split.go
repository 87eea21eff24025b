package coll

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/errtext"
)

// member is each rank's contribution to Split.
type member struct{ Color, Key, Rank int64 }

// Split makes groups of the ranks that gave the same color, in each ordered by key
// and then by the rank in c. A rank with a negative color gets no group: nil. All
// ranks of c call it.
func (c *Comm) Split(ctx context.Context, color, key int) (_ *Comm, err error) {
	defer errtext.Wrap("coll", "split", &err)
	nonce := c.derive(c.seq.Load(), int64(color))
	all := make([]member, len(c.peers))
	if err := Allgather(ctx, c, []member{{int64(color), int64(key), int64(c.rank)}}, all); err != nil {
		return nil, err
	}
	id, err := c.agree(ctx, color >= 0)
	if color < 0 {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m member) bool { return m.Color != int64(color) })
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Rank, b.Rank))
	})
	rank, peers := 0, make([]efa.Addr, len(all))
	for i, m := range all {
		if m.Rank < 0 || m.Rank >= int64(len(c.peers)) {
			return nil, c.fail(&RankError{c.rank, fmt.Errorf("%w: a member of rank %d", ErrMismatch, m.Rank)})
		}
		if peers[i] = c.peers[m.Rank]; m.Rank == int64(c.rank) {
			rank = i
		}
	}
	var g *group
	if err == nil {
		g, err = c.newGroup(id, rank, peers, nonce)
	}
	if err == nil {
		return &Comm{g, c.set}, nil
	}
	if id != rootContext { // others may have made it, and would wait for us
		(&group{family: c.family, id: id, nonce: nonce, rank: rank, peers: peers}).tell(&RankError{rank, err})
	}
	if e := (*RankError)(nil); errors.As(err, &e) || errors.Is(err, ErrNoContext) {
		return nil, err
	}
	return nil, c.fail(&RankError{c.rank, err})
}

// derive is the nonce of a group that is made of this one.
func (g *group) derive(seq uint64, color int64) uint64 {
	h := fnv.New64a()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], g.nonce)
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint64(b[16:], uint64(color))
	_, _ = h.Write(b[:])
	return h.Sum64()
}

// agree finds a context id that is free on all ranks and takes it, on those that
// want one. All groups of a Split have the same, since no rank is in two of them. In
// between another Split, on another group, may take the id on one of the ranks:
// therefore a vote, and if it fails another attempt with another id. If the vote itself
// fails, the id comes with the error: others may have it.
func (c *Comm) agree(ctx context.Context, want bool) (uint64, error) {
	const attempts = 64
	for i := range uint64(attempts) {
		start := uint64(1)
		if i > 0 {
			start = c.derive(c.seq.Load(), int64(i))
		}
		var bits, common [maxContexts / 64]uint64
		if c.ids.all(bits[:]); !want {
			for i := range bits {
				bits[i] = ^uint64(0)
			}
		}
		if err := Allreduce(ctx, c, bits[:], common[:], And); err != nil {
			return 0, err
		}
		id, ok := pick(common[:], start%maxContexts)
		if !ok {
			break
		}
		mine := want && c.ids.take(id)
		vote := []uint8{1}
		if want && !mine {
			vote[0] = 0
		}
		err := Allreduce(ctx, c, vote, vote, Min)
		if err == nil && vote[0] == 1 {
			return id, nil
		}
		if err != nil {
			return id, err
		}
		if mine {
			c.ids.free(id)
		}
	}
	return 0, ErrNoContext
}
