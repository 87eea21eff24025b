package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// foe is a hostile process. What it fails to do is nobody's loss: it is counted under
// another name.
type foe struct {
	role
	rng   *rand.Rand
	count map[string]uint64 // attacks by kind, since the last report
}

// kind is something that a foe does.
type kind struct {
	name string
	do   func() error
}

// runFoe attacks until its time is up: with each kind once, and then at random.
func runFoe(r role, out *line, kinds func(context.Context, *foe) ([]kind, func(), error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.For)
	defer cancel()
	go func() { // the conductor is gone, or wants no more
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	f := &foe{role: r, rng: rand.New(rand.NewPCG(r.Seed, uint64(r.Life))), count: map[string]uint64{}}
	list, end, err := kinds(ctx, f)
	if err != nil {
		return fmt.Errorf("foe %s: %w", r.Is, err)
	}
	defer end()
	if r.Only != "" {
		list = slices.DeleteFunc(list, func(k kind) bool { return !slices.Contains(strings.Split(r.Only, ","), k.name) })
	}
	if len(list) == 0 {
		return nil
	}
	told := clock.System.Now()
	for n := 0; ctx.Err() == nil; n++ {
		k := list[f.rng.IntN(len(list))]
		if n < len(list) { // each once, however little time there is
			k = list[n]
		}
		if err := k.do(); err != nil {
			f.count["failed "+k.name]++
		} else {
			f.count[k.name]++
		}
		if now := clock.System.Now(); now.Sub(told) > 100*time.Millisecond {
			told = now
			f.tell(out)
		}
		_ = pause(ctx, time.Duration(f.rng.IntN(3000))*time.Microsecond)
	}
	f.tell(out)
	return nil
}

func (f *foe) tell(out *line) {
	m := report{Kinds: f.count}
	for _, n := range f.count {
		m.Connections += n
	}
	out.say(news{Report: &m})
	f.count = map[string]uint64{}
}

// lacks reports whether a kind of attack that is wanted has not happened yet.
func (c *conductor) lacks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.want, func(k string) bool { return c.row.Kinds[k] == 0 })
}

func (f *foe) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(f.rng.Uint32())
	}
	return b
}

// letLoose keeps foes running until ctx ends.
func (c *conductor) letLoose(ctx context.Context) {
	base := c.role
	for _, p := range c.peers {
		if p == nil {
			continue
		}
		if p.Is == "steady" {
			base.At = append(base.At, p.card.Address)
			base.Pids = append(base.Pids, p.cmd.Process.Pid)
		}
		if p.Is == "victim" {
			base.Victim, base.Prey = p.cmd.Process.Pid, p.card.Address
		}
	}
	keep := func(is string, life int, each time.Duration, uid uint32) {
		c.foes.Add(1)
		go func() {
			defer c.foes.Done()
			for ; ctx.Err() == nil; life += 10 {
				r := base
				r.Is, r.Life, r.For = is, life, each
				c.foe(ctx, r, uid)
			}
		}()
	}
	if c.Device != "shm" {
		keep("tcp", 1, c.For, 0)
		keep("tcp", 2, c.For, 0)
		if os.Geteuid() == 0 {
			keep("tcp", 3, c.For, 65534)
		}
	}
	if c.shares() { // they die often, with what they have claimed
		keep("shm", 4, time.Second, 0)
		keep("shm", 5, 700*time.Millisecond, 0)
	}
}

// foe runs one foe; one of shared memory is killed in the middle.
func (c *conductor) foe(ctx context.Context, r role, uid uint32) {
	p, err := begin(r, uid)
	if err != nil {
		c.blame("%v", err)
		_ = pause(ctx, time.Second)
		return
	}
	timer := clock.NewTimer(r.For)
	defer timer.Stop()
	for {
		select {
		case n, ok := <-p.news:
			if !ok {
				if s := p.stderr.String(); s != "" {
					c.blame("foe %s: %s", r.Is, s)
				}
				return
			}
			c.mu.Lock()
			c.row.add(n.Report, r.Is)
			c.mu.Unlock()
		case <-timer.C:
			p.kill()
			return
		case <-ctx.Done():
			p.kill()
			return
		}
	}
}

func (c *conductor) blame(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.row.wrong(format, args...)
}
