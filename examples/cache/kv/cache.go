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

// ErrNotFound says that there is no value for the key.
var ErrNotFound = errors.New("kv: not found")

// Cache is a rank's access to it, for one goroutine at a time.
type Cache struct {
	// Torn counts the entries that were read again.
	Torn uint64

	group *launch.Group
	mine  *efa.MemoryRegion // entries, and behind them one to read into and write from
	buf   []byte
	at    []efa.Remote // the entries of each rank
}

// Open makes the cache. All ranks must call it.
func Open(ctx context.Context, g *launch.Group) (*Cache, error) {
	access := efa.AccessSend | efa.AccessRecv | efa.AccessRemoteRead | efa.AccessRemoteWrite
	mine, err := g.Domain.Alloc((entries+1)*entryLen, access)
	if err != nil {
		return nil, err
	}
	c := &Cache{group: g, mine: mine, buf: mine.Bytes()[entries*entryLen:], at: make([]efa.Remote, g.Size)}
	if err := c.meet(ctx); err != nil {
		return nil, errors.Join(err, mine.Close())
	}
	return c, nil
}

// meet tells all ranks of each other's entries.
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
		if err := c.at[rank].UnmarshalBinary(b); err != nil {
			return fmt.Errorf("kv: rank %d: %w", rank, err)
		}
	}
	return nil
}

// Close gives the memory back: no rank must use the cache any more, see Exchange.
func (c *Cache) Close() error { return c.mine.Close() }

// place is where a key lies: whose memory, and the entry there.
func (c *Cache) place(key string) (efa.Addr, efa.Remote) {
	h := hash(key)
	rank := h % uint64(len(c.at))
	entry := h / uint64(len(c.at)) % entries
	return c.group.Peers[rank], c.at[rank].Slice(entry*entryLen, entryLen)
}

// Get returns the value of a key, which is valid until the next call, and its version.
func (c *Cache) Get(ctx context.Context, key string) (value []byte, version uint64, err error) {
	owner, at := c.place(key)
	for {
		if err := c.group.Endpoint.Read(ctx, owner, at, c.buf); err != nil {
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
	ep := c.group.Endpoint
	owner, at := c.place(key)
	version, err := c.lock(ctx, owner, at)
	if err != nil {
		return err
	}
	n := encode(c.buf, version+2, key, value)
	if err := ep.Write(ctx, owner, at.Slice(sumAt, uint64(n-sumAt)), c.buf[sumAt:n], efa.Complete(efa.Delivered)); err != nil {
		return err
	}
	return efa.Store(ctx, ep, owner, at, version+2)
}

// lock makes the version odd, and returns what it was.
func (c *Cache) lock(ctx context.Context, owner efa.Addr, at efa.Remote) (uint64, error) {
	version, err := efa.Load[uint64](ctx, c.group.Endpoint, owner, at)
	for err == nil {
		even := version &^ 1 // an odd one will be unlocked with the next
		version, err = efa.CompareSwap(ctx, c.group.Endpoint, owner, at, even, even+1)
		if version == even {
			break
		}
	}
	return version, err
}

// Puts counts what was put into this rank's memory. No rank must be at it.
func (c *Cache) Puts(ctx context.Context) (n uint64, err error) {
	self := c.group.Rank
	for i := range uint64(entries) {
		v, err := efa.Load[uint64](ctx, c.group.Endpoint, c.group.Peers[self], c.at[self].Slice(i*entryLen, 8))
		if err != nil {
			return 0, err
		}
		n += v / 2
	}
	return n, nil
}

// Exchange gives every rank what each of them brings, by rank. All must call it, and none
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
