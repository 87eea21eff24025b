// Kvtransfer moves the key-value cache of a language model from the process that has computed
// it (prefill) to the one that generates with it (decode): 32 layers of pages of 64 KiB, which
// the prefill process writes into the memory of the decode process in no order. That learns by
// counted completions that a layer is there, and begins with it while others are under way.
//
//	go run ./examples/kvtransfer                         2 processes of its own
//	EFACTOR_DEVICE=tcp go run ./examples/kvtransfer      over another device
//	mpiexec -n 2 ./kvtransfer                            or srun, torchrun, ...
//	go run ./interop/efaemu run -- ./kvtransfer          with EFACTOR_DEVICE=efa: on emulated EFA cards
//
// Every page is checked. If the prefill process dies the decode process ends with an error.
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
	"strings"
	"time"

	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/launch/local"
	"github.com/efactor/efactor/examples/kvtransfer/paged"
)

const (
	decodeRank = iota
	prefillRank
	ranks
)

func main() {
	s := paged.Shape{PageSize: 64 << 10}
	flag.IntVar(&s.Layers, "layers", 32, "layers of the cache")
	flag.IntVar(&s.Pages, "pages", 16, "pages of 64 KiB of each layer")
	rounds := flag.Int("rounds", 4, "how often to transfer the cache")
	flag.Parse()
	local.Main(ranks, func(ctx context.Context) error { return run(ctx, s, *rounds) })
}

func run(ctx context.Context, s paged.Shape, rounds int) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	g, err := launch.Config{Endpoint: s.Endpoint()}.Init(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	switch {
	case g.Size != ranks:
		return fmt.Errorf("%d ranks, it takes %d", g.Size, ranks)
	case g.Rank == decodeRank:
		return decode(ctx, g, s, rounds)
	default:
		return prefill(ctx, g, s, rounds)
	}
}

// prefill writes the pages of each round that the decode process begins.
func prefill(ctx context.Context, g *launch.Group, s paged.Shape, rounds int) error {
	source, err := paged.NewSource(s, g.Endpoint, g.Peers[decodeRank])
	if err != nil {
		return err
	}
	mem, err := g.Domain.Alloc(s.Bytes(), 0) // what the model has computed
	if err != nil {
		return err
	}
	defer mem.Close()
	at := func(k int) []byte { return mem.Bytes()[k*s.PageSize:][:s.PageSize] }
	for i := range uint32(rounds) {
		for k := range s.Layers * s.Pages {
			fill(at(k), i, k)
		}
		if _, err := source.Next(ctx); err != nil {
			return err
		}
		for _, k := range rand.Perm(s.Layers * s.Pages) {
			if err := source.Write(ctx, k/s.Pages, k%s.Pages, at(k)); err != nil {
				return err
			}
		}
		if err := source.Finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// decode takes each layer as soon as it is there, and checks its pages.
func decode(ctx context.Context, g *launch.Group, s paged.Shape, rounds int) error {
	sink, err := paged.NewSink(s, g.Domain, g.Endpoint, g.Peers[prefillRank])
	if err != nil {
		return err
	}
	defer sink.Close()
	want, checked := make([]byte, s.PageSize), 0
	for range rounds {
		began := time.Now()
		round, err := sink.Begin(ctx)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for layer := range s.Layers {
			pages, err := sink.Layer(ctx, layer)
			if err != nil {
				return fmt.Errorf("round %d, layer %d: %w", round, layer, err)
			}
			for page := range s.Pages {
				fill(want, round, layer*s.Pages+page)
				if !bytes.Equal(want, pages[page*s.PageSize:][:s.PageSize]) {
					return fmt.Errorf("round %d, layer %d, page %d is not what was written", round, layer, page)
				}
				checked++
			}
			if (layer+1)%max(1, s.Layers/8) == 0 {
				bar(round, layer+1, s.Layers)
			}
		}
		took := time.Since(began).Seconds()
		fmt.Printf("round %d: %d layers, %.1f MB in %.3f s, %.2f GB/s\n", round, s.Layers, float64(s.Bytes())/1e6, took, float64(s.Bytes())/1e9/took)
	}
	fmt.Printf("%d pages, all as they were written\n", checked)
	return nil
}

// bar shows how many layers have been decoded.
func bar(round uint32, n, of int) {
	const width = 32
	done := n * width / of
	fmt.Fprintf(os.Stderr, "round %d [%s%s] layer %d of %d\n", round, strings.Repeat("#", done), strings.Repeat(".", width-done), n, of)
}

// fill makes the contents of page k of a round.
func fill(p []byte, round uint32, k int) {
	for i := 0; i+8 <= len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], uint64(round)<<48^uint64(k)<<24^uint64(i))
	}
}
