package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// sides are two endpoints of the card that know each other.
type sides struct {
	fab  *efa.Fabric
	doms []*efa.Domain
	eps  []*efa.Endpoint
	to   []efa.Addr // the other, as each knows it
}

func (c *card) sides(ctx context.Context) (*sides, error) {
	s := &sides{}
	var err error
	if s.fab, err = efa.Open(efa.Config{Device: c.dev}); err != nil {
		return s, err
	}
	for range 2 {
		dom, err := s.fab.OpenDomain(efa.DomainConfig{})
		if err != nil {
			return s, err
		}
		s.doms = append(s.doms, dom)
		ep, err := dom.NewEndpoint(efa.EndpointConfig{})
		if err != nil {
			return s, err
		}
		s.eps = append(s.eps, ep)
		if err := ep.Enable(ctx); err != nil {
			return s, err
		}
	}
	for i, ep := range s.eps {
		to, err := ep.AddressVector().Insert(s.eps[1-i].Address())
		if err != nil {
			return s, err
		}
		s.to = append(s.to, to)
	}
	return s, nil
}

func (s *sides) close() error {
	var errs []error
	for _, ep := range s.eps {
		errs = append(errs, ep.Close())
	}
	for _, d := range s.doms {
		errs = append(errs, d.Close())
	}
	if s.fab != nil {
		errs = append(errs, s.fab.Close())
	}
	return errors.Join(errs...)
}

// messages go both ways, in every size that has a subprotocol of its own, from plain memory
// and from regions.
func messages(ctx context.Context, c *card, o *outcome) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 6*patience)
	defer cancel()
	s, err := c.sides(ctx)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return err
	}
	const most = 8 << 20
	var mem [2][]byte
	for i := range mem {
		mr, err := s.doms[i].Alloc(most, 0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, mr.Close()) }()
		mem[i] = mr.Bytes()
	}
	for k, n := range []int{0, 1, 8, 4000, c.info.MTU, 60_000, 100_000, 1 << 20, most} {
		for from := range 2 {
			for _, plain := range []bool{true, false} {
				out, in := mem[from][:n], mem[1-from][:n]
				if plain {
					out, in = make([]byte, n), make([]byte, n)
				}
				clear(in)
				fill(out, n+from)
				began := time.Now()
				if err := s.pass(ctx, from, uint64(k), out, in, plain); err != nil {
					return fmt.Errorf("%d bytes, plain memory: %v: %w", n, plain, err)
				}
				if took := time.Since(began); n == most && !plain {
					o.figure = fmt.Sprintf("8 MiB at %.0f MB/s", float64(n)/1e6/took.Seconds())
				}
				if err := holds(in, n, n+from); err != nil {
					return err
				}
			}
		}
	}
	o.say("messages of up to 8 MiB", "arrive whole")
	return nil
}

// pass sends a message, tagged if it comes from plain memory.
func (s *sides) pass(ctx context.Context, from int, tag uint64, out, in []byte, tagged bool) error {
	a, b := s.eps[from], s.eps[1-from]
	op, err := b.Start(&efa.RecvReq{Buf: in, Tagged: tagged, Tag: tag, From: s.to[1-from], Directed: true})
	if err != nil {
		return err
	}
	if tagged {
		err = a.SendTag(ctx, s.to[from], tag, out)
	} else {
		err = a.Send(ctx, s.to[from], out)
	}
	if err != nil {
		return err
	}
	_, err = op.Wait(ctx)
	return err
}

// remoteMemory writes, reads and updates memory of the other endpoint.
func remoteMemory(ctx context.Context, c *card, o *outcome) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 6*patience)
	defer cancel()
	s, err := c.sides(ctx)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return err
	}
	const n = 3<<20 + 8
	there, err := s.doms[1].Alloc(n, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, there.Close()) }()
	mem := s.eps[0].Memory(s.to[0], there.Remote())
	p := make([]byte, n)
	fill(p, 1)
	began := time.Now()
	if err := mem.Write(ctx, p, efa.Complete(efa.Delivered)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	wrote := time.Since(began)
	clear(p)
	began = time.Now()
	if err := mem.Read(ctx, p); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	o.figure = fmt.Sprintf("write %.0f MB/s, read %.0f MB/s", n/1e6/wrote.Seconds(), n/1e6/time.Since(began).Seconds())
	if err := holds(p, n, 1); err != nil {
		return err
	}
	cell := efa.NewCell[uint64](mem)
	if err := cell.Store(ctx, 40); err != nil {
		return fmt.Errorf("atomic: %w", err)
	}
	old, err := cell.FetchAdd(ctx, 2)
	if err != nil {
		return fmt.Errorf("atomic: %w", err)
	}
	now, err := cell.Load(ctx)
	if err != nil {
		return fmt.Errorf("atomic: %w", err)
	}
	o.say("40, and 2 added", "%d, then %d", old, now)
	return nil
}
