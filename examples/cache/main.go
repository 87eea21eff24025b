// Cache is a key-value cache in the memory of all ranks. A rank reads a value out of the
// memory that it lies in, and writes it there: the rank whose memory it is runs no code
// for either.
//
//	go run ./examples/cache                  4 processes of its own
//	mpiexec -n 4 ./cache                     or srun, torchrun, ...
//
// Each rank puts and gets random keys and checks the results: every value is as one put
// left it, and no key returns to an older one. The package kv explains how.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/launch/local"
	"github.com/efactor/efactor/examples/cache/kv"
)

func main() {
	ranks := flag.Int("ranks", 4, "processes to start if nobody else has started some")
	ops := flag.Int("ops", 5000, "puts and gets of each rank")
	keys := flag.Int("keys", 16, "how many keys there are: few, so that ranks meet at them")
	flag.Parse()
	local.Run(*ranks, func(ctx context.Context, g *launch.Group) error { return run(ctx, g, *ops, *keys) })
}

// Counters of each rank.
const (
	puts = iota
	gets
	found
	torn  // read while another rank wrote it, so read again
	wrong // not a value that a put has left, or older than one seen before
	stored
	counts
)

func run(ctx context.Context, g *launch.Group, ops, keys int) error {
	c, err := kv.Open(ctx, g)
	if err != nil {
		return err
	}
	defer c.Close()
	n, err := use(ctx, c, g.Rank, ops, keys)
	if err != nil {
		return err
	}
	if _, err := c.Exchange(ctx, nil); err != nil { // until here others put into our memory
		return err
	}
	n[torn] = c.Torn
	if n[stored], err = c.Puts(ctx); err != nil {
		return err
	}
	mine, err := binary.Append(nil, binary.LittleEndian, n[:])
	if err != nil {
		return err
	}
	all, err := c.Exchange(ctx, mine)
	if err != nil || g.Rank != 0 {
		return err
	}
	var sum [counts]uint64
	for _, b := range all {
		if _, err := binary.Decode(b, binary.LittleEndian, n[:]); err != nil {
			return err
		}
		for i := range sum {
			sum[i] += n[i]
		}
	}
	fmt.Printf("%d ranks, %d keys\n", g.Size, keys)
	fmt.Printf("%6d puts, %d of them in the entries' versions\n", sum[puts], sum[stored])
	fmt.Printf("%6d gets, %d found, %d wrong\n", sum[gets], sum[found], sum[wrong])
	fmt.Fprintf(os.Stderr, "%d times an entry was read again since somebody was writing it\n", sum[torn])
	if sum[wrong] != 0 || sum[puts] != sum[stored] {
		return errors.New("the cache is not consistent")
	}
	return nil
}

// use puts and gets, and checks.
func use(ctx context.Context, c *kv.Cache, rank, ops, keys int) (n [counts]uint64, err error) {
	rnd := rand.New(rand.NewPCG(uint64(rank), 1))
	seen := map[string]uint64{} // versions
	for i := range ops {
		key := fmt.Sprintf("key %d", rnd.IntN(keys))
		if rnd.IntN(4) == 0 {
			n[puts]++
			if err := c.Put(ctx, key, value(key, rank, i)); err != nil {
				return n, err
			}
			continue
		}
		n[gets]++
		v, version, err := c.Get(ctx, key)
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return n, err
		}
		n[found]++
		if !whole(key, v) || version < seen[key] {
			n[wrong]++
		}
		seen[key] = version
	}
	return n, nil
}

// value is the value of a rank's i-th put: it contains key, rank and step, many
// times.
func value(key string, rank, i int) []byte {
	line := fmt.Appendf(nil, "%s, rank %d, step %d\n", key, rank, i)
	return bytes.Repeat(line, 1+i%(kv.MaxValue/len(line)))
}

// whole reports whether a value of the key is as it was put.
func whole(key string, v []byte) bool {
	var rank, i int
	line, _, _ := bytes.Cut(v, []byte("\n"))
	_, err := fmt.Sscanf(string(line), key+", rank %d, step %d", &rank, &i)
	return err == nil && bytes.Equal(v, value(key, rank, i))
}
