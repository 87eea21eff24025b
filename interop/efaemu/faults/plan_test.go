package faults

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// TestParse: lists that make sense, and those that do not.
func TestParse(t *testing.T) {
	p, err := Parse("")
	require.NoError(t, err)
	require.Nil(t, p)
	for list, want := range map[string]string{
		"length":           "when",
		"length@0":         "when",
		"length@x":         "when",
		"length@1=3":       "takes no value",
		"status@1":         "status@1",
		"status@1=300":     "status@1=300",
		"command@3=ELOOP":  "which error",
		"surprise@1":       "cq-error, gone",
		"memlock=0":        "number of bytes",
		"memlock=":         "number of bytes",
		"length@1,,id@2":   "want memlock",
		"length@1,phase@2": "",
	} {
		_, err := Parse(list)
		if want == "" {
			require.NoError(t, err, list)
			continue
		}
		require.ErrorIs(t, err, ErrList, list)
		require.ErrorContains(t, err, want, list)
	}
	for name := range kinds {
		require.Contains(t, Usage, name+"@n")
	}
}

// TestPlan: each fault comes in its turn, once, and does what Usage says.
func TestPlan(t *testing.T) {
	p, err := Parse("length@1,id@2,qpn@3,queue@4,status@5=13,phase@6,twice@7,overrun@8,port-down@9,command@2,command@3=ENOMEM,gone@4,memlock=100")
	require.NoError(t, err)
	events := make(chan Event, 9)
	p.On(func(e Event) { events <- e })
	good := abi.CQE{Queue: abi.SendQueue, QPN: 7, ReqID: 5, Length: 9}
	next := func() (abi.CQE, How) {
		c := good
		h := p.Completion(&c, 16)
		return c, h
	}
	once := How{Times: 1}
	for n, want := range []struct {
		change func(c *abi.CQE)
		how    How
	}{
		{func(c *abi.CQE) { c.Length = 0xffff }, once},
		{func(c *abi.CQE) { c.ReqID = never }, once},
		{func(c *abi.CQE) { c.QPN = ^c.QPN }, once},
		{func(c *abi.CQE) { c.Queue = 0 }, once},
		{func(c *abi.CQE) { c.Status = 13 }, once},
		{func(*abi.CQE) {}, How{Times: 1, Flip: true}},
		{func(*abi.CQE) {}, How{Times: 2}},
		{func(*abi.CQE) {}, How{Times: 17}},
		{func(c *abi.CQE) { c.Status = uint8(device.StatusUnreachable) }, once},
		{func(c *abi.CQE) { c.Status = uint8(device.StatusUnreachable) }, once},
	} {
		require.Equal(t, n > 8, p.Down())
		c, h := next()
		expect := good
		want.change(&expect)
		require.Equal(t, expect, c, "completion %d", n+1)
		require.Equal(t, want.how, h, "completion %d", n+1)
	}
	require.Equal(t, PortDown, <-events)
	for _, want := range []syscall.Errno{0, syscall.EIO, syscall.ENOMEM, syscall.EIO, 0} {
		require.Equal(t, want, p.Command())
	}
	require.Equal(t, Reset, <-events)
	require.True(t, p.Lock(60))
	require.False(t, p.Lock(41))
	require.True(t, p.Lock(40))
	p.Unlock(60)
	require.True(t, p.Lock(60))

	var none *Plan
	c := good
	require.Equal(t, once, none.Completion(&c, 16))
	require.Equal(t, good, c)
	require.Zero(t, none.Command())
	require.True(t, none.Lock(1<<60))
	none.Unlock(1)
	none.On(nil)
	require.False(t, none.Down())
}
