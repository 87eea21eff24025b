package echo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/runtime/clock"
)

// asking is a plan at work.
type asking struct {
	*Plan
	clients  []*client
	server   int // its process; 0: this one
	counting bool
}

// client asks one question after the other.
type client struct {
	caller
	times   []time.Duration // of answers, if each is timed
	thought time.Duration   // CPU time
}

func (a *asking) close() (err error) {
	for _, c := range a.clients {
		err = errors.Join(err, c.close())
	}
	return err
}

// account is what both processes have used so far.
type account struct {
	client, server time.Duration
}

func (a *asking) account() (x account) {
	x.client = versus.OwnCPU()
	if a.server > 0 {
		x.server = versus.CPUTime(a.server)
	}
	return x
}

func (a *asking) measure(ctx context.Context) (res Result, err error) {
	if _, err := a.run(ctx, a.Warm); err != nil {
		return res, err
	}
	for _, c := range a.clients {
		c.times, c.thought = c.times[:0], 0
	}
	before, began := a.account(), clock.System.Now()
	n, err := a.run(ctx, a.Count)
	if err != nil {
		return res, err
	}
	res.Each = clock.System.Now().Sub(began) / time.Duration(n)
	after := a.account()
	res.Figures = map[string]float64{}
	var times []time.Duration
	client := after.client - before.client
	for _, c := range a.clients {
		times, client = append(times, c.times...), client-c.thought
	}
	server := after.server - before.server
	res.CPU = max(client+server, 0) / time.Duration(n)
	each := func(v float64) float64 { return v / float64(n) }
	res.Figures[CPU] = microseconds(res.CPU)
	res.Figures[ClientCPU], res.Figures[ServerCPU] = each(microseconds(client)), each(microseconds(server))
	if len(times) > 0 {
		slices.Sort(times)
		res.Figures[P50], res.Figures[P99] = microseconds(versus.Percentile(times, 50)), microseconds(versus.Percentile(times, 99))
	}
	if a.Idle > 0 {
		versus.Settle(a.Idle)
		used := versus.CPUTime(a.server)
		<-clock.NewTimer(a.Idle).C
		res.IdleCPU = versus.CPUTime(a.server) - used
	}
	return res, a.count(ctx, &res)
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// count finds out how many system calls and switches some further questions take.
func (a *asking) count(ctx context.Context, res *Result) error {
	if !a.Counts {
		return nil
	}
	pids := []int{os.Getpid()}
	if a.server > 0 {
		pids = append(pids, a.server)
	}
	counts := versus.Count(pids...)
	a.counting = true
	n, err := a.run(ctx, a.Count/4)
	calls, switches := counts.Close()
	res.Figures[Switches] = float64(switches) / float64(n)
	if counts.Calls() == nil {
		res.Figures[Calls] = float64(calls) / float64(n)
	}
	return err
}

// run has all clients together ask n questions, or a few more so that each has as many.
func (a *asking) run(ctx context.Context, n int) (int, error) {
	each := max((n+len(a.clients)-1)/len(a.clients), 1)
	if a.Stream {
		each = (each + batch - 1) / batch * batch
	}
	errs := make([]error, len(a.clients))
	var others sync.WaitGroup
	for i, c := range a.clients[1:] {
		others.Go(func() { errs[1+i] = a.ask(ctx, c, each) })
	}
	errs[0] = a.ask(ctx, a.clients[0], each)
	others.Wait()
	return each * len(a.clients), errors.Join(errs...)
}

// ask is what a client does.
func (a *asking) ask(ctx context.Context, c *client, n int) error {
	question := make([]byte, a.Size)
	if a.Stream {
		x, ok := c.caller.(streamer)
		if !ok {
			return fmt.Errorf("%w of messages one way: %s", errUnknown, a.System)
		}
		return x.stream(ctx, n, question)
	}
	for i := range n {
		if a.Size >= 8 {
			binary.LittleEndian.PutUint64(question, uint64(i)) //nolint:gosec // a count
		}
		var began clock.Time
		if a.Think > 0 {
			if a.counting {
				versus.Compute(a.Think)
			} else {
				c.thought += versus.ComputeCPU(a.Think)
			}
			began = clock.System.Now()
		}
		answer, err := c.call(ctx, question)
		if err != nil {
			return err
		}
		if a.Think > 0 {
			c.times = append(c.times, clock.System.Now().Sub(began))
		}
		if !bytes.Equal(answer, question) {
			return errAnswer
		}
	}
	return nil
}
