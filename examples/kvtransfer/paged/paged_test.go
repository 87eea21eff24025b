package paged_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/examples/kvtransfer/paged"
)

var shape = paged.Shape{Layers: 3, Pages: 4, PageSize: 100}

// side is one of the two.
type side struct {
	dom  *efa.Domain
	ep   *efa.Endpoint
	peer efa.Addr
}

// pair makes both sides in a world.
func pair(t *testing.T, w *efatest.World) (decode, prefill *side) {
	open := func(cfg efa.EndpointConfig) *side {
		dev, err := w.Device(efatest.DeviceConfig{RDMARead: true, RDMAWrite: true})
		require.NoError(t, err)
		fab, err := efa.Open(efa.Config{Device: dev})
		require.NoError(t, err)
		dom, err := fab.OpenDomain(efa.DomainConfig{})
		require.NoError(t, err)
		ep, err := dom.NewEndpoint(cfg)
		require.NoError(t, err)
		require.NoError(t, ep.Enable(context.Background()))
		t.Cleanup(func() {
			require.NoError(t, ep.Close())
			require.NoError(t, dom.Close())
			require.NoError(t, fab.Close())
		})
		return &side{dom: dom, ep: ep}
	}
	decode, prefill = open(shape.Endpoint()), open(efa.EndpointConfig{})
	var err error
	decode.peer, err = decode.ep.AddressVector().Insert(prefill.ep.Address())
	require.NoError(t, err)
	prefill.peer, err = prefill.ep.AddressVector().Insert(decode.ep.Address())
	require.NoError(t, err)
	return decode, prefill
}

// TestRounds: a layer is there when all of its pages are; a page of an earlier round counts for
// none.
func TestRounds(t *testing.T) {
	w, err := efatest.New(efatest.Config{Seed: 3})
	require.NoError(t, err)
	decode, prefill := pair(t, w)
	const rounds = 5
	w.Go("decode", func(ctx context.Context) error {
		sink, err := paged.NewSink(shape, decode.dom, decode.ep, decode.peer)
		if err != nil {
			return err
		}
		defer sink.Close()
		for range rounds {
			round, err := sink.Begin(ctx)
			if err != nil {
				return err
			}
			for layer := shape.Layers - 1; layer >= 0; layer-- {
				b, err := sink.Layer(ctx, layer)
				if err != nil {
					return err
				}
				for i, x := range b {
					if want := byte(round)*16 + byte(layer*shape.Pages+i/shape.PageSize); x != want {
						t.Errorf("round %d, layer %d, byte %d: %d, not %d", round, layer, i, x, want)
					}
				}
			}
		}
		if s := decode.ep.Arrivals().Stats(); s.Late != rounds-1 || s.Unexpected > 0 {
			t.Errorf("%+v", s)
		}
		return nil
	})
	w.Go("prefill", func(ctx context.Context) error {
		source, err := paged.NewSource(shape, prefill.ep, prefill.peer)
		if err != nil {
			return err
		}
		for i := range rounds {
			round, err := source.Next(ctx)
			if err != nil {
				return err
			}
			if i > 0 { // one more of the round before: of nothing, so that it does no harm
				data, err := efa.DataLayout{}.Data(0, round-1)
				if err != nil {
					return err
				}
				if err := prefill.ep.Memory(prefill.peer, source.There()).Write(ctx, nil, efa.Data(data), efa.Complete(efa.Delivered)); err != nil {
					return err
				}
			}
			for k := range shape.Layers * shape.Pages {
				k = k * 7 % (shape.Layers * shape.Pages)
				p := make([]byte, shape.PageSize)
				for j := range p {
					p[j] = byte(round)*16 + byte(k)
				}
				if err := source.Write(ctx, k/shape.Pages, k%shape.Pages, p); err != nil {
					return err
				}
			}
			if err := source.Finish(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, w.Run())
}

// TestBadPartner: two sides with different shapes, and a message that begins nothing.
func TestBadPartner(t *testing.T) {
	w, err := efatest.New(efatest.Config{Seed: 4})
	require.NoError(t, err)
	decode, prefill := pair(t, w)
	w.Go("decode", func(ctx context.Context) error {
		sink, err := paged.NewSink(shape, decode.dom, decode.ep, decode.peer)
		if err != nil {
			return err
		}
		defer sink.Close()
		if _, err := sink.Begin(ctx); err != nil {
			return err
		}
		if err := decode.ep.Send(ctx, decode.peer, []byte("no")); err != nil {
			return err
		}
		ctx, cancel := w.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = sink.Layer(ctx, 0)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return nil
	})
	w.Go("prefill", func(ctx context.Context) error {
		big := shape
		big.Pages++
		source, err := paged.NewSource(big, prefill.ep, prefill.peer)
		if err != nil {
			return err
		}
		_, err = source.Next(ctx)
		require.ErrorContains(t, err, "different shapes")
		_, err = source.Next(ctx)
		require.ErrorContains(t, err, "begins no round")
		return nil
	})
	require.NoError(t, w.Run())
	_, err = paged.NewSink(shape, prefill.dom, prefill.ep, prefill.peer)
	require.ErrorContains(t, err, "counts no arrivals")
	for _, bad := range []paged.Shape{{}, {Layers: 1, Pages: 1}, {Layers: 1 << 20, Pages: 1, PageSize: 1}} {
		require.Error(t, bad.Check())
	}
}
