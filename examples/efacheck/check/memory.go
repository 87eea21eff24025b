package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/actors/device"
)

// rights are all that a region can have on the card.
func (c *card) rights() device.Access {
	a := device.LocalWrite
	if c.info.RDMARead {
		a |= device.RemoteRead
	}
	if c.info.RDMAWrite {
		a |= device.RemoteWrite
	}
	return a
}

// regions registers memory of many sizes, of the Go heap and not.
func regions(_ context.Context, c *card, o *outcome) error {
	for _, n := range []int{1, 4096, 1 << 20, 32 << 20} {
		began := time.Now()
		plain, err := c.dev.Register(make([]byte, n), c.rights())
		if err != nil {
			return fmt.Errorf("plain memory of %d bytes: %w", n, err)
		}
		took := time.Since(began)
		c.regions = append(c.regions, plain)
		began = time.Now()
		if _, err = c.alloc(n, c.rights()); err != nil {
			return err
		}
		o.figure = fmt.Sprintf("%d MiB: %v plain, %v allocated", n>>20, took.Round(time.Microsecond), time.Since(began).Round(time.Microsecond))
	}
	keys := map[uint64]bool{}
	for _, mr := range c.regions {
		keys[mr.RKey()] = true
	}
	o.say("keys of 8 regions", "%d", len(keys))
	return nil
}

var rdmaSizes = []int{0, 1, 63, 4096, 100_000, 1 << 20, 8<<20 + 5}

// rdmaRead reads regions of the other queue pair's.
func rdmaRead(ctx context.Context, c *card, o *outcome) error {
	if !c.info.RDMARead {
		o.say("reads", "the card has none")
		return nil
	}
	if err := c.rdma(ctx, device.WRRead); err != nil {
		return err
	}
	o.say("reads", "fetch what is there")
	return nil
}

// rdmaWrite writes to them, with and without immediate data.
func rdmaWrite(ctx context.Context, c *card, o *outcome) error {
	if !c.info.RDMAWrite {
		o.say("writes", "the card has none")
		return nil
	}
	if err := c.rdma(ctx, device.WRWrite); err != nil {
		return err
	}
	o.say("writes", "put it there")
	return nil
}

func (c *card) rdma(ctx context.Context, kind device.WR) error {
	a, b, err := c.pair()
	if err != nil {
		return err
	}
	for k, n := range rdmaSizes {
		n = min(n, c.info.MaxRDMA)
		local, err := c.alloc(max(n, 1), device.LocalWrite)
		if err != nil {
			return err
		}
		there, err := c.alloc(max(n, 1), c.rights())
		if err != nil {
			return err
		}
		from, to := there, local
		if kind == device.WRWrite {
			from, to = local, there
		}
		fill(from.Bytes(), n)
		clear(to.Bytes())
		wr := device.SendWR{Kind: kind, Payload: local.Bytes()[:n], LKey: local.LKey(), RKey: there.RKey(), Remote: there.Addr()}
		if wr.HasImm = kind == device.WRWrite && k%2 == 1; wr.HasImm {
			wr.Imm = 4711
		}
		if err := a.send(b, wr); err != nil {
			return err
		}
		if err := c.done(ctx, a); err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
		if wr.HasImm {
			err = c.receive(ctx, b, func(x *device.Completion, _ []byte) error {
				if x.Op != device.OpWritten || x.Imm != wr.Imm || x.Len != n {
					return fmt.Errorf("completion %+v of a write of %d bytes", *x, n)
				}
				return nil
			})
		}
		if err := errors.Join(err, holds(to.Bytes()[:n], n, n)); err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
	}
	return nil
}

// rdmaRefused asks for memory that may not be had. A card may end a queue pair that does so.
func rdmaRefused(ctx context.Context, c *card, o *outcome) error {
	kind, right := device.WRRead, device.RemoteRead
	if !c.info.RDMARead {
		o.say("forbidden RDMA", "the card has none")
		return nil
	}
	for _, x := range []struct {
		name     string
		access   device.Access
		key, off uint64
	}{
		{"a key that nobody has", right, 0x5a5a5a, 0},
		{"beyond the region", right, 0, 1 << 20},
		{"a region without the right", device.LocalWrite, 0, 0},
	} {
		a, b, err := c.pair()
		if err != nil {
			return err
		}
		local, err := c.alloc(4096, device.LocalWrite)
		if err != nil {
			return err
		}
		there, err := c.alloc(4096, x.access)
		if err != nil {
			return err
		}
		clear(local.Bytes())
		wr := device.SendWR{
			Kind: kind, Payload: local.Bytes(), LKey: local.LKey(), RKey: there.RKey() ^ x.key, Remote: there.Addr() + x.off,
		}
		if err := a.send(b, wr); err != nil {
			return err
		}
		s, err := c.status(ctx, a, patience)
		if err != nil {
			return err
		}
		o.say("RDMA, "+x.name, "%s", s)
		for _, v := range local.Bytes() {
			if v != 0 {
				return fmt.Errorf("%s: something was read", x.name)
			}
		}
	}
	return nil
}

// handles makes address handles of hosts that need not exist.
func handles(_ context.Context, c *card, o *outcome) error {
	e, err := c.open(device.QPConfig{}, false)
	if err != nil {
		return err
	}
	again, err := e.CreateAH(c.info.GID)
	if err != nil {
		return err
	}
	o.say("two handles of one GID", "same: %v", again == e.to)
	const n = 64
	made := 0
	began := time.Now()
	var first error
	for i := range n {
		gid := c.info.GID
		gid[15], gid[14], gid[13] = byte(i+1), 0xfe, 0xdc
		if _, err := e.CreateAH(gid); err == nil {
			made++
		} else if first == nil {
			first = err
		}
	}
	o.figure = fmt.Sprintf("%v each", (time.Since(began) / n).Round(time.Microsecond))
	o.say("handles of 64 hosts that may not exist", "%d", made)
	if first != nil {
		o.figure += ", refused: " + first.Error()
	}
	return nil
}
