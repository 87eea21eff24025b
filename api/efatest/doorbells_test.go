package efatest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// bell is a device that counts the doorbells and the packets of its queue pairs.
type bell struct {
	*efatest.Device
	rung, posted int
}

type bellQP struct {
	device.QP
	d *bell
}

func (d *bell) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	return &bellQP{qp, d}, err
}

func (q *bellQP) Doorbell() {
	q.d.rung++
	q.QP.Doorbell()
}

func (q *bellQP) PostSend(wr *device.SendWR) error {
	q.d.posted++
	return q.QP.PostSend(wr)
}

// TestDoorbells: what PostSends takes at once goes to the device with one doorbell for each turn
// of the shard; single posts that the shard sees one by one have one each. A request that
// is refused in the middle has those before it rung all the same.
func TestDoorbells(t *testing.T) {
	const (
		n    = 100
		turn = 64 // requests that a shard takes in one turn
	)
	w := newWorld(t, efatest.Config{Seed: 10, Fabric: efatest.FabricConfig{Delay: 1000}})
	open := func() (*bell, *efa.Endpoint, *efa.Queue) {
		dev, err := w.Device(sim.DeviceConfig{})
		require.NoError(t, err)
		b := &bell{Device: dev}
		fab, err := efa.Open(efa.Config{Device: b})
		require.NoError(t, err)
		dom, err := fab.OpenDomain(efa.DomainConfig{})
		require.NoError(t, err)
		q, err := dom.NewQueue(4 * n)
		require.NoError(t, err)
		ep, err := dom.NewEndpoint(efa.EndpointConfig{SendQueue: q, RecvQueue: q})
		require.NoError(t, err)
		require.NoError(t, ep.Enable(context.Background()))
		return b, ep, q
	}
	d, a, q := open()
	_, b, _ := open()
	to, err := a.AddressVector().Insert(b.Address())
	require.NoError(t, err)
	batch := func(n int) []efa.SendReq {
		rs := make([]efa.SendReq, n)
		for i := range rs {
			rs[i] = efa.SendReq{To: to, Buf: []byte{byte(i)}}
		}
		return rs
	}
	w.Go("a", func(ctx context.Context) error {
		drain := func(n int) {
			cs := make([]efa.Completion, n)
			for got := 0; got < n; {
				k, err := q.Read(ctx, cs)
				require.NoError(t, err)
				for _, c := range cs[:k] {
					require.NoError(t, c.Err)
				}
				got += k
			}
			require.NoError(t, w.Sleep(1e6)) // all else that is under way ends
		}
		require.NoError(t, a.Send(ctx, to, nil)) // the handshake is over
		drain(0)
		count := func(f func()) (rung, posted int) {
			d.rung, d.posted = 0, 0
			f()
			return d.rung, d.posted
		}
		rung, posted := count(func() {
			k, err := a.PostSends(batch(n))
			require.NoError(t, err)
			require.Equal(t, n, k)
			drain(n)
		})
		require.Equal(t, []int{(n + turn - 1) / turn, n}, []int{rung, posted})

		rs := batch(n)
		rs[60].Level = efa.Delivered + 1
		rung, posted = count(func() {
			k, err := a.PostSends(rs)
			require.ErrorIs(t, err, efa.ErrInvalid)
			require.Equal(t, 60, k)
			drain(60)
		})
		require.Equal(t, []int{1, 60}, []int{rung, posted})

		rung, posted = count(func() {
			for _, r := range batch(n) {
				_, err := a.PostSend(&r)
				require.NoError(t, err)
				require.NoError(t, w.Yield())
			}
			drain(n)
		})
		require.Equal(t, n, posted)
		require.Greater(t, rung, 2*(n+turn-1)/turn, "a turn for every few of them")
		return nil
	})
	w.Go("b", func(ctx context.Context) error {
		for range 1 + n + 60 + n {
			if _, err := b.Recv(ctx, make([]byte, 1)); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, w.Run())
}
