package check

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/efactor/efactor/actors/device"
)

// card is the device, and what a check has open on it.
type card struct {
	dev  device.Device
	info device.Info

	ends    []*end
	regions []device.MR
}

// end is one of a check's queue pairs, with what it has completed.
type end struct {
	device.QP
	to   device.AH // the card's own
	key  uint32
	sent []device.Completion
	got  []device.Completion
}

// patience is how long a check waits for what must come, and for what perhaps never does.
const (
	patience = 30 * time.Second
	silence  = 10 * time.Second
)

// open makes a queue pair; ready: with receives.
func (c *card) open(cfg device.QPConfig, ready bool) (*end, error) {
	if cfg.QKey == 0 {
		cfg.QKey = uint32(0x1000 + len(c.ends))
	}
	cfg.SQDepth, cfg.RQDepth = 64, 64
	qp, err := c.dev.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	e := &end{QP: qp, key: cfg.QKey}
	c.ends = append(c.ends, e)
	if e.to, err = qp.CreateAH(c.info.GID); err != nil {
		return nil, fmt.Errorf("handle of the own GID: %w", err)
	}
	if ready {
		slots := make([]int32, qp.RecvSlots())
		for i := range slots {
			slots[i] = int32(i)
		}
		qp.PostRecv(slots)
		qp.Doorbell()
	}
	return e, nil
}

// pair makes two queue pairs that are ready.
func (c *card) pair() (a, b *end, err error) {
	if a, err = c.open(device.QPConfig{}, true); err == nil {
		b, err = c.open(device.QPConfig{}, true)
	}
	return a, b, err
}

// alloc makes a region with a pattern in it.
func (c *card) alloc(n int, a device.Access) (device.MR, error) {
	mr, err := c.dev.Alloc(n, a)
	if err != nil {
		return nil, fmt.Errorf("region of %d bytes: %w", n, err)
	}
	c.regions = append(c.regions, mr)
	fill(mr.Bytes(), n)
	return mr, nil
}

// tidy closes what a check has left.
func (c *card) tidy() error {
	var errs []error
	for _, e := range c.ends {
		errs = append(errs, e.Close())
	}
	for _, mr := range c.regions {
		if err := mr.Close(); !errors.Is(err, device.ErrClosed) {
			errs = append(errs, err)
		}
	}
	c.ends, c.regions = nil, nil
	return errors.Join(errs...)
}

// send posts a request to another queue pair.
func (e *end) send(to *end, wr device.SendWR) error {
	wr.AH, wr.QPN = e.to, to.QPN()
	if wr.QKey == 0 {
		wr.QKey = to.key
	}
	err := e.PostSend(&wr)
	e.Doorbell()
	return err
}

// turn takes completions of all queue pairs.
func (c *card) turn() error {
	var cs [16]device.Completion
	for _, e := range c.ends {
		for _, x := range cs[:e.Poll(cs[:])] {
			switch x.Op {
			case device.OpSend:
				e.sent = append(e.sent, x)
			case device.OpRecv, device.OpWritten:
				e.got = append(e.got, x)
			case device.OpFatal:
				return fmt.Errorf("the queue pair has ended: %v", x.Status)
			case device.OpPlaced, device.OpRefused, device.OpGone:
			}
		}
	}
	return nil
}

var errSilent = errors.New("nothing came")

// await polls until the condition holds.
func (c *card) await(ctx context.Context, limit time.Duration, until func() bool) error {
	for end := time.Now().Add(limit); !until(); {
		if err := c.turn(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w in %v", errSilent, limit)
		}
		runtime.Gosched()
	}
	return nil
}

// status is how the next request of e ends; a card may be silent about it.
func (c *card) status(ctx context.Context, e *end, limit time.Duration) (string, error) {
	err := c.await(ctx, limit, func() bool { return len(e.sent) > 0 })
	if errors.Is(err, errSilent) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	s := e.sent[0].Status
	e.sent = e.sent[1:]
	return s.String(), nil
}

// done waits until the next request of e has ended well.
func (c *card) done(ctx context.Context, e *end) error {
	s, err := c.status(ctx, e, patience)
	if err == nil && s != device.StatusOK.String() {
		err = errors.New(s)
	}
	return err
}

// receive waits for the next packet or write at e, and looks at it before its slot is given
// back.
func (c *card) receive(ctx context.Context, e *end, look func(x *device.Completion, b []byte) error) error {
	if err := c.await(ctx, patience, func() bool { return len(e.got) > 0 }); err != nil {
		return err
	}
	x := e.got[0]
	e.got = e.got[1:]
	var b []byte
	if x.Op == device.OpRecv {
		mem := e.RecvBytes(int(x.ID))
		if x.Len < 0 || x.Len > len(mem) {
			return fmt.Errorf("a packet of %d bytes in a slot of %d", x.Len, len(mem))
		}
		b = mem[:x.Len]
	}
	err := look(&x, b)
	if x.ID != device.NoSlot {
		e.PostRecv([]int32{int32(x.ID)})
		e.Doorbell()
	}
	return err
}

// fill puts a pattern into b that depends on seed.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16) ^ byte(seed)
	}
}

// holds checks the pattern.
func holds(b []byte, n, seed int) error {
	if len(b) != n {
		return fmt.Errorf("%d bytes, want %d", len(b), n)
	}
	for i, x := range b {
		if want := byte(i) ^ byte(i>>8) ^ byte(i>>16) ^ byte(seed); x != want {
			return fmt.Errorf("byte %d of %d is %#x, want %#x", i, n, x, want)
		}
	}
	return nil
}
