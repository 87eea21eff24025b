package efatest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// TestLatePacket: two packets of many are late by up to seconds. Where the receiver keeps no order the
// other messages are received meanwhile, and where it does they are received after them; each once.
func TestLatePacket(t *testing.T) {
	for _, unordered := range []bool{true, false} {
		for seed := range uint64(10) {
			require.NoError(t, latePacket(seed, unordered), "unordered %v, seed %d", unordered, seed)
		}
	}
}

func latePacket(seed uint64, unordered bool) error {
	const messages, size, soon = 1000, 12_000, 20 * time.Millisecond // two packets each
	w, err := efatest.New(efatest.Config{Seed: seed, Fabric: efatest.FabricConfig{
		Delay: 5 * time.Microsecond, Jitter: 50 * time.Microsecond,
	}})
	if err != nil {
		return err
	}
	if _, err := w.Fabric().AddRule(sim.Rule{
		Fault: sim.FaultDelay, Delay: 5 * time.Second, Skip: 200, Times: 2,
	}); err != nil {
		return err
	}
	var eps [2]*efa.Endpoint
	var to efa.Addr
	for i := range eps {
		dev, err := w.Device(sim.DeviceConfig{})
		if err != nil {
			return err
		}
		if eps[i], err = efa.OpenEndpoint(context.Background(), efa.Setup{
			Fabric: efa.Config{Device: dev}, Endpoint: efa.EndpointConfig{Unordered: unordered},
		}); err != nil {
			return err
		}
	}
	if to, err = eps[0].AddressVector().Insert(eps[1].Address()); err != nil {
		return err
	}
	w.Go("sender", func(ctx context.Context) error {
		var ops []*efa.Op
		for i := range messages {
			b := make([]byte, size)
			binary.LittleEndian.PutUint64(b, uint64(i))
			op, err := eps[0].Start(&efa.SendReq{To: to, Buf: b})
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
		for _, op := range ops {
			if _, err := op.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	inTime, seen := 0, make([]int, messages)
	w.Go("receiver", func(ctx context.Context) error {
		b := make([]byte, size)
		for range messages {
			if _, err := eps[1].Recv(ctx, b); err != nil {
				return err
			}
			seen[binary.LittleEndian.Uint64(b)]++
			if w.Elapsed() < soon {
				inTime++
			}
		}
		return nil
	})
	if err := w.Run(); err != nil {
		return err
	}
	for i, n := range seen {
		if n != 1 {
			return fmt.Errorf("message %d was received %d times", i, n)
		}
	}
	if unordered && inTime < messages-2 || !unordered && inTime > messages/2 {
		return fmt.Errorf("%d messages were received in time", inTime)
	}
	return errors.Join(eps[0].Close(), eps[1].Close())
}
