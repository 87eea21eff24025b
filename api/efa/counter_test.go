package efa_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestCounterArithmetic: values are set and added to, beside operations that count, and waits
// see it.
func TestCounterArithmetic(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{})
	c := dom.NewCounter()
	s := newEndpoint(t, dom, efa.EndpointConfig{SendCounter: c})
	self, err := s.av.Insert(s.ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)
	is := func(ok, failed uint64) {
		t.Helper()
		a, b := c.Value()
		require.Equal(t, [2]uint64{ok, failed}, [2]uint64{a, b})
	}
	is(0, 0)
	c.Add(5)
	is(5, 0)
	require.NoError(t, s.ep.Send(ctx, self, nil))
	require.NoError(t, c.Wait(ctx, 6))
	is(6, 0)
	c.Set(1 << 40)
	is(1<<40, 0)
	require.NoError(t, s.ep.Send(ctx, self, nil))
	require.NoError(t, c.Wait(ctx, 1<<40+1))
	c.Set(0)
	c.AddFailed(3)
	var bad *efa.CounterError
	require.ErrorAs(t, c.Wait(ctx, 1), &bad)
	require.Equal(t, efa.CounterError{OK: 0, Failed: 3}, *bad)
	c.Add(1)
	require.NoError(t, c.Wait(ctx, 1), "the failures are known by now")
	is(1, 3)
	c.SetFailed(7)
	c.Add(1)
	require.NoError(t, c.Wait(ctx, 2), "those that were set, too")
	is(2, 7)
	c.SetFailed(0)
	c.AddFailed(1)
	require.ErrorAs(t, c.Wait(ctx, 3), &bad)
	require.Equal(t, efa.CounterError{OK: 2, Failed: 1}, *bad)
}

// TestCounterArithmeticWakes: each way to change a counter ends the waits that it satisfies.
func TestCounterArithmeticWakes(t *testing.T) {
	for name, change := range map[string]func(*efa.Counter){
		"add": func(c *efa.Counter) { c.Add(9) }, "set": func(c *efa.Counter) { c.Set(9) },
		"add failed": func(c *efa.Counter) { c.AddFailed(9) }, "set failed": func(c *efa.Counter) { c.SetFailed(9) },
	} {
		t.Run(name, func(t *testing.T) {
			dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{})
			c := dom.NewCounter()
			newEndpoint(t, dom, efa.EndpointConfig{SendCounter: c})
			ctx := testContext(t)
			var wg sync.WaitGroup
			var errs [4]error
			for i := range errs {
				wg.Go(func() { errs[i] = c.Wait(ctx, 9) })
			}
			for c.Waiting() < len(errs) {
				require.NoError(t, ctx.Err())
			}
			change(c)
			wg.Wait()
			for _, err := range errs {
				if ok, _ := c.Value(); ok == 9 {
					require.NoError(t, err)
				} else {
					require.ErrorAs(t, err, new(*efa.CounterError))
				}
			}
		})
	}
}
