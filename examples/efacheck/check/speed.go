package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/efactor/efactor/actors/device"
)

// wakeUp sleeps on the completion channel until a packet comes.
func wakeUp(ctx context.Context, c *card, o *outcome) error {
	a, b, err := c.pair()
	if err != nil {
		return err
	}
	if len(b.FDs()) == 0 {
		o.say("sleeping", "there is no descriptor to sleep on")
		return nil
	}
	var took []time.Duration
	for range 20 {
		if !b.Arm() {
			o.say("sleeping", "the card has no events")
			return nil
		}
		began := time.Now()
		if err := a.send(b, device.SendWR{Payload: []byte("wake")}); err != nil {
			return err
		}
		n, err := readable(b.FDs(), patience)
		took = append(took, time.Since(began))
		if err != nil || n == 0 {
			return fmt.Errorf("%d descriptors woke: %w", n, err)
		}
		err = c.receive(ctx, b, func(*device.Completion, []byte) error { return nil })
		if err := errors.Join(err, c.done(ctx, a)); err != nil {
			return err
		}
	}
	slices.Sort(took)
	o.figure = fmt.Sprintf("median %v", took[len(took)/2].Round(100*time.Nanosecond))
	o.say("sleeping", "ends with the next completion")
	return nil
}

// latency plays ping-pong with 8 bytes.
func latency(ctx context.Context, c *card, o *outcome) error {
	a, b, err := c.pair()
	if err != nil {
		return err
	}
	const n = 500
	var took []time.Duration
	ball := []byte("pingpong")
	pass := func(from, to *end) error {
		if err := from.send(to, device.SendWR{Payload: ball}); err != nil {
			return err
		}
		return c.receive(ctx, to, func(*device.Completion, []byte) error { return nil })
	}
	for range n {
		began := time.Now()
		if err := errors.Join(pass(a, b), pass(b, a)); err != nil {
			return err
		}
		took = append(took, time.Since(began)/2)
		if err := errors.Join(c.done(ctx, a), c.done(ctx, b)); err != nil {
			return err
		}
	}
	slices.Sort(took)
	o.figure = fmt.Sprintf("8 bytes one way: least %v, median %v, 99%% %v", took[0], took[n/2], took[n*99/100])
	return nil
}

// bandwidth fills the card with packets and with RDMA, in a loop to itself.
func bandwidth(ctx context.Context, c *card, o *outcome) error {
	a, b, err := c.pair()
	if err != nil {
		return err
	}
	mr, err := c.alloc(1<<20, c.rights())
	if err != nil {
		return err
	}
	there, err := c.alloc(1<<20, c.rights())
	if err != nil {
		return err
	}
	rate := func(name string, count int, wr device.SendWR) error {
		began := time.Now()
		come := count // of RDMA nothing comes
		if wr.Kind == device.WRSend {
			come = 0
		}
		for posted, ended := 0, 0; ended < count || come < count; {
			for posted < count && posted-ended < 32 && posted-come < 32 {
				if err := a.send(b, wr); err != nil {
					return err
				}
				posted++
			}
			if err := c.await(ctx, patience, func() bool { return len(a.sent)+len(b.got) > 0 }); err != nil {
				return err
			}
			for _, x := range a.sent {
				if x.Status != device.StatusOK {
					return fmt.Errorf("%s: %v", name, x.Status)
				}
			}
			slots := make([]int32, len(b.got))
			for i := range b.got {
				slots[i] = int32(b.got[i].ID)
			}
			b.PostRecv(slots)
			b.Doorbell()
			ended, come = ended+len(a.sent), come+len(b.got)
			a.sent, b.got = a.sent[:0], b.got[:0]
		}
		o.figure += fmt.Sprintf("%s %.0f MB/s  ", name, float64(count*wr.Len())/1e6/time.Since(began).Seconds())
		return nil
	}
	err = rate("packets", 2000, device.SendWR{Payload: mr.Bytes()[:c.info.MTU], LKey: mr.LKey()})
	wr := device.SendWR{Payload: mr.Bytes(), LKey: mr.LKey(), RKey: there.RKey(), Remote: there.Addr()}
	if err == nil && c.info.RDMARead {
		wr.Kind = device.WRRead
		err = rate("reads", 64, wr)
	}
	if err == nil && c.info.RDMAWrite {
		wr.Kind = device.WRWrite
		err = rate("writes", 64, wr)
	}
	return err
}
