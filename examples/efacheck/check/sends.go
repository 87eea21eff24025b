package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/actors/device"
)

// limits are what the card says that it can do.
func limits(_ context.Context, c *card, o *outcome) error {
	i := &c.info
	o.say("model", "%#x", i.PartID)
	o.say("largest packet", "%d", i.MTU)
	o.say("RDMA read", "%v", i.RDMARead)
	o.say("RDMA write", "%v", i.RDMAWrite)
	o.say("largest RDMA request", "%d", i.MaxRDMA)
	o.say("deepest send queue", "%d", i.MaxSQ)
	o.say("deepest receive queue", "%d", i.MaxRQ)
	o.say("queue pairs", "%d", i.MaxQP)
	o.say("pieces of a packet", "%d", i.MaxPieces)
	return nil
}

// queuePairs opens some at a time; their numbers differ.
func queuePairs(_ context.Context, c *card, o *outcome) error {
	const n = 16
	numbers := map[uint16]bool{}
	began := time.Now()
	for range n {
		e, err := c.open(device.QPConfig{}, false)
		if err != nil {
			return fmt.Errorf("after %d: %w", len(numbers), err)
		}
		numbers[e.QPN()] = true
	}
	o.figure = fmt.Sprintf("%.1f ms to open one", time.Since(began).Seconds()*1000/n)
	o.say("numbers of 16 queue pairs", "%d", len(numbers))
	return nil
}

// sends are packets that lie within a descriptor and such that do not, with and without
// immediate data.
func sends(ctx context.Context, c *card, o *outcome) error {
	a, b, err := c.pair()
	if err != nil {
		return err
	}
	sizes := []int{1, 8, 31, 32, 33, 79, 80, 81, 1000, 4096, c.info.MTU}
	for k, n := range sizes {
		p := make([]byte, n)
		fill(p, n)
		wr := device.SendWR{Payload: p, HasImm: k%2 == 1, Imm: uint32(n)}
		if err := a.send(b, wr); err != nil {
			return fmt.Errorf("send of %d bytes: %w", n, err)
		}
		err := c.receive(ctx, b, func(x *device.Completion, got []byte) error {
			if x.SrcQPN != a.QPN() || x.AH != b.to || x.HasImm != wr.HasImm || x.HasImm && x.Imm != wr.Imm || x.Status != device.StatusOK {
				return fmt.Errorf("completion %+v", *x)
			}
			return holds(got, n, n)
		})
		if err := errors.Join(err, c.done(ctx, a)); err != nil {
			return fmt.Errorf("packet of %d bytes: %w", n, err)
		}
	}
	long := a.send(b, device.SendWR{Payload: make([]byte, c.info.MTU+1)})
	o.say("packet that is too long", "refused: %v", errors.Is(long, device.ErrTooLong))
	return nil
}

// gathered are packets of a header and of a payload that is not copied.
func gathered(ctx context.Context, c *card, o *outcome) error {
	a, b, err := c.pair()
	if err != nil {
		return err
	}
	mr, err := c.alloc(c.info.MTU, 0)
	if err != nil {
		return err
	}
	header := make([]byte, 64)
	fill(header, 7)
	for _, n := range []int{1, 500, c.info.MTU - len(header)} {
		if err := a.send(b, device.SendWR{Header: header, Payload: mr.Bytes()[:n], LKey: mr.LKey()}); err != nil {
			return err
		}
		err := c.receive(ctx, b, func(_ *device.Completion, got []byte) error {
			if len(got) != len(header)+n {
				return fmt.Errorf("%d bytes, want %d", len(got), len(header)+n)
			}
			return errors.Join(holds(got[:len(header)], len(header), 7), holds(got[len(header):], n, c.info.MTU))
		})
		if err := errors.Join(err, c.done(ctx, a)); err != nil {
			return fmt.Errorf("header and %d bytes: %w", n, err)
		}
	}
	o.say("gathered packets", "arrive")
	return nil
}

// notReady sends where no receive is posted: without retries, and with retries that a
// receive ends.
func notReady(ctx context.Context, c *card, o *outcome) error {
	for _, retries := range []uint8{0, 7} {
		a, err := c.open(device.QPConfig{RNRRetry: retries}, true)
		if err != nil {
			return err
		}
		b, err := c.open(device.QPConfig{}, false)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := a.send(b, device.SendWR{Payload: []byte("knock")}); err != nil {
			return err
		}
		if retries == 0 {
			s, err := c.status(ctx, a, patience)
			if err != nil {
				return err
			}
			o.figure = fmt.Sprintf("refused after %v", time.Since(began).Round(time.Microsecond))
			o.say("no receive, no retries", "%s", s)
			continue
		}
		if err := c.await(ctx, 20*time.Millisecond, func() bool { return len(a.sent) > 0 }); !errors.Is(err, errSilent) {
			return fmt.Errorf("ended before a receive was posted: %w", err)
		}
		b.PostRecv([]int32{0})
		b.Doorbell()
		err = c.receive(ctx, b, func(*device.Completion, []byte) error { return nil })
		s, serr := c.status(ctx, a, patience)
		if err := errors.Join(err, serr); err != nil {
			return err
		}
		o.say("a receive after 20 ms, retries for ever", "%s", s)
	}
	return nil
}

// wrongDestinations sends to a queue pair that has gone, and with a wrong Q_Key.
func wrongDestinations(ctx context.Context, c *card, o *outcome) error {
	a, b, err := c.pair()
	if err != nil {
		return err
	}
	if err := a.send(b, device.SendWR{Payload: []byte("x"), QKey: b.key + 100}); err != nil {
		return err
	}
	s, err := c.status(ctx, a, silence)
	if err != nil {
		return err
	}
	o.say("packet with a wrong Q_Key", "%s", s)
	o.say("receives that it took", "%d", len(b.got))
	number := b.QPN()
	if err := b.Close(); err != nil {
		return err
	}
	c.ends = c.ends[:1]
	began := time.Now()
	if err := a.PostSend(&device.SendWR{AH: a.to, QPN: number, QKey: b.key, Payload: []byte("y")}); err != nil {
		return err
	}
	a.Doorbell()
	if s, err = c.status(ctx, a, silence); err != nil {
		return err
	}
	o.figure = fmt.Sprintf("to nobody: %v", time.Since(began).Round(time.Microsecond))
	o.say("packet to a queue pair that is closed", "%s", s)
	return nil
}
