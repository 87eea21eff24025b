package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
)

const entries = 256 // of each rank

// ErrNotFound is the error of a key without a value.
var ErrNotFound = errors.New("kv: not found")

// Cache is a rank's access to it, for one goroutine at a time.
type Cache struct {
	// Torn counts the entries that were read again.
	Torn uint64

	group *launch.Group
	mine  *efa.MemoryRegion // entries, and behind them one to read into and write from
	buf   []byte
	at    []efa.Memory // the entries of each rank
}

// Open makes the cache. All ranks must call it.
func Open(ctx context.Context, g *launch.Group) (*Cache, error) {
	access := efa.AccessSend | efa.AccessRecv | efa.AccessRemoteRead | efa.AccessRemoteWrite
	mine, err := g.Domain.Alloc((entries+1)*entryLen, access)
	if err != nil {
		return nil, err
	}
	c := &Cache{group: g, mine: mine, buf: mine.Bytes()[entries*entryLen:], at: make([]efa.Memory, g.Size)}
	if err := c.meet(ctx); err != nil {
		return nil, errors.Join(err, mine.Close())
	}
	return c, nil
}

// meet exchanges the places of all ranks' entries.
func (c *Cache) meet(ctx context.Context) error {
	handle, err := c.mine.Remote().Slice(0, entries*entryLen).MarshalBinary()
	if err != nil {
		return err
	}
	all, err := c.Exchange(ctx, handle)
	if err != nil {
		return err
	}
	for rank, b := range all {
		var at efa.Remote
		if err := at.UnmarshalBinary(b); err != nil {
			return fmt.Errorf("kv: rank %d: %w", rank, err)
		}
		c.at[rank] = c.group.Endpoint.Memory(c.group.Peers[rank], at)
	}
	return nil
}

// Close gives the memory back: no rank must use the cache any more, see Exchange.
func (c *Cache) Close() error { return c.mine.Close() }

// place is the entry where a key lies.
func (c *Cache) place(key string) efa.Memory {
	h := hash(key)
	entry := h / uint64(len(c.at)) % entries
	return c.at[h%uint64(len(c.at))].Slice(entry*entryLen, entryLen)
}

// Get returns the value of a key, which is valid until the next call, and its version.
func (c *Cache) Get(ctx context.Context, key string) (value []byte, version uint64, err error) {
	entry := c.place(key)
	for {
		if err := entry.Read(ctx, c.buf); err != nil {
			return nil, 0, err
		}
		version, k, v, ok := decode(c.buf)
		if !ok {
			c.Torn++
			continue
		}
		if version == 0 || !bytes.Equal(k, []byte(key)) {
			return nil, 0, ErrNotFound
		}
		return v, version, nil
	}
}

// Put gives a key a value. When it returns, all ranks see it.
func (c *Cache) Put(ctx context.Context, key string, value []byte) error {
	if len(key) > MaxKey || len(value) > MaxValue {
		return fmt.Errorf("kv: key of %d bytes and value of %d, at most %d and %d", len(key), len(value), MaxKey, MaxValue)
	}
	entry := c.place(key)
	word := efa.NewCell[uint64](entry)
	version, err := lock(ctx, word)
	if err != nil {
		return err
	}
	n := encode(c.buf, version+2, key, value)
	if err := entry.Slice(sumAt, uint64(n-sumAt)).Write(ctx, c.buf[sumAt:n], efa.Complete(efa.Delivered)); err != nil {
		return err
	}
	return word.Store(ctx, version+2)
}

// lock makes the version odd, and returns the earlier version.
func lock(ctx context.Context, word efa.Cell[uint64]) (uint64, error) {
	version, err := word.Load(ctx)
	for err == nil {
		even := version &^ 1 // an odd one will be unlocked with the next
		version, err = word.CompareSwap(ctx, even, even+1)
		if version == even {
			break
		}
	}
	return version, err
}

// Puts counts the puts into this rank's memory. No rank must be at it.
func (c *Cache) Puts(ctx context.Context) (n uint64, err error) {
	mine := c.at[c.group.Rank]
	for i := range uint64(entries) {
		v, err := efa.NewCell[uint64](mine.Slice(i*entryLen, 8)).Load(ctx)
		if err != nil {
			return 0, err
		}
		n += v / 2
	}
	return n, nil
}

// Exchange returns the values of all ranks, indexed by rank. All must call it, and none
// returns before all have.
func (c *Cache) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	g := c.group
	for _, peer := range g.Peers {
		if err := g.Endpoint.Send(ctx, peer, mine); err != nil {
			return nil, err
		}
	}
	all := make([][]byte, g.Size)
	for rank, peer := range g.Peers {
		b := make([]byte, len(mine))
		m, err := g.Endpoint.Recv(ctx, b, efa.From(peer))
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", rank, err)
		}
		all[rank] = b[:m.N]
	}
	return all, nil
}
