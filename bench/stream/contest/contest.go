package contest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/flow"
)

// Config says what to measure.
type Config struct {
	Sizes    []int
	Plan     flow.Plan     // of which Size, Warm, Count and Alloc are filled in
	Count    int           // messages of a run; 0: as many as take Time
	Time     time.Duration // of a run, about
	Rounds   int
	Mem      []string // kinds of efactor's buffers: alloc, plain
	Peers    []string
	Device   string
	Progress string
	// CPUProfile, if not "", is where efactor's processes write profiles, with the rank
	// added; those of the last run stay.
	CPUProfile string
	Self       string // the program, for efactor's processes
	JSON       bool
	Out, Log   io.Writer
}

// Result is what a system came to at a size.
type Result struct {
	System string        `json:"system"`
	Bytes  int           `json:"bytes"`
	Count  int           `json:"messages"`            // of each way, in a round
	Rate   versus.Spread `json:"messages_per_second"` // of both ways together
	GBps   versus.Spread `json:"gbps"`                // 10^9 bytes a second
}

// report is what JSON has.
type report struct {
	Machine versus.Machine `json:"machine"`
	Plan    flow.Plan      `json:"plan"`
	Results []*Result      `json:"results"`
}

// Run measures all systems and writes what came out.
func (c *Config) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "efactor-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	systems, err := c.systems(ctx, dir)
	if err != nil {
		return err
	}
	t := &table{Config: c, systems: systems}
	if !c.JSON {
		t.head()
	}
	var all []*Result
	for _, size := range c.Sizes {
		results, err := c.line(ctx, systems, size)
		if err != nil {
			return err
		}
		if all = append(all, results...); !c.JSON {
			t.line(size, results)
		}
	}
	if !c.JSON {
		t.end()
		return nil
	}
	e := json.NewEncoder(c.Out)
	e.SetIndent("", "  ")
	return e.Encode(report{versus.Here(), c.Plan, all})
}

// line measures all systems at one size. A first run of each tells how many messages the
// others need; it does not count.
func (c *Config) line(ctx context.Context, systems []System, size int) ([]*Result, error) {
	results, plans, rates := make([]*Result, len(systems)), make([]flow.Plan, len(systems)), make([][]float64, len(systems))
	for i, s := range systems {
		p := &plans[i]
		*p = c.Plan
		if p.Size = size; c.Count == 0 {
			p.Pilot()
			r, err := s.Run(ctx, *p)
			if err != nil {
				return nil, fmt.Errorf("%s at %d B: %w", s.Name, size, err)
			}
			p.Last(c.Time, r.Rate()/float64(len(r.Nanos)))
		} else {
			p.Messages(c.Count)
		}
		results[i] = &Result{System: s.Name, Bytes: size, Count: p.Count}
	}
	err := versus.Turns(c.Rounds, len(systems), func(_, i int) error {
		r, err := systems[i].Run(ctx, plans[i])
		if err != nil {
			return fmt.Errorf("%s at %d B: %w", systems[i].Name, size, err)
		}
		rates[i] = append(rates[i], r.Rate())
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		r.Rate = versus.SpreadOf(rates[i])
		r.GBps = r.Rate.Times(float64(size) / 1e9)
	}
	return results, nil
}
