package death

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// side is one endpoint of a run, in a process of its own.
type side struct {
	run  *run
	name string
	seam *seam
	fab  *efa.Fabric
	dom  *efa.Domain
	av   *efa.AddressVector
	ep   *efa.Endpoint
	q    *efa.Queue
	raw  efa.RawAddr

	to  efa.Addr          // the other side
	mem *efa.MemoryRegion // that the other side may use
	buf *efa.MemoryRegion // of its own operations
	at  efa.Remote        // mem, as the other side names it

	deeds      []*deed
	gone       bool          // killed
	closed     bool          // by its program
	stillUntil time.Duration // its process is stopped until then

	base, now []uint64 // counters of the machines: when the play began, and at the last point
}

// deed is one operation of a side.
type deed struct {
	what   string
	side   *side
	post   func(token uint64) (efa.OpID, error)
	call   func() error  // instead of post: a call that returns when it is over
	after  time.Duration // it is posted so long after the play began
	cancel time.Duration // it is canceled so long after that; 0: never
	id     efa.OpID
	tagged bool
	into   []byte // where its data goes, if any
	want   []byte
	pair   *deed // of a message: the other side's

	outcomes int
	err      error
	at       time.Duration
	proto    string
}

const (
	mtu       = 1024
	recvQueue = 32
	probe     = 300 * time.Millisecond
	patience  = 3 * time.Second // PeerTimeout
	region    = 1 << 16
)

// open makes an endpoint. at is a place to take, the zero one is any.
func (r *run) open(name string, at efa.RawAddr) *side {
	s := &side{run: r, name: name}
	dc := r.play.dev
	dc.GID = device.GID(at.GID())
	dev, err := r.w.Device(dc)
	must(err)
	s.seam = &seam{Device: dev, sim: dev}
	s.fab, err = efa.Open(efa.Config{Device: s.seam})
	must(err)
	s.dom, err = s.fab.OpenDomain(efa.DomainConfig{})
	must(err)
	s.q, err = s.dom.NewQueue(256)
	must(err)
	s.av = s.dom.NewAddressVector()
	cfg := efa.EndpointConfig{AV: s.av, SendQueue: s.q, RecvQueue: s.q, QPN: at.QPN()}
	cfg.Protocol = r.play.protocol(probe, patience)
	efatest.KnobsOf(&cfg.Protocol).Steps = func(c settings.Steps) { s.seam.steps = c }
	s.ep, err = s.dom.NewEndpoint(cfg)
	must(err)
	must(s.ep.Enable(context.Background()))
	raw, ok := s.ep.Address().Raw("sim")
	if !ok {
		must(fmt.Errorf("no address of %s", name))
	}
	s.raw = raw
	s.mem, err = s.dom.Alloc(region, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	must(err)
	copy(s.mem.Bytes(), pattern(region, 3)) // what reads find
	s.buf, err = s.dom.Alloc(region, efa.AccessSend|efa.AccessRecv)
	must(err)
	s.at = s.mem.Remote()
	return s
}

// bytesOf is n bytes of a side's own memory m; plain ones for a side that is in another process.
func bytesOf(m *efa.MemoryRegion, n int) []byte {
	if m == nil {
		return make([]byte, n)
	}
	return m.Bytes()[:n]
}

// knows puts x into the address vector.
func (s *side) knows(x *side) efa.Addr {
	h, err := s.av.Insert(x.ep.Address())
	must(err)
	return h
}

// pattern is n bytes that tell from others.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}

// do has the side carry a deed out.
func (s *side) do(d *deed) *deed {
	d.side = s
	s.deeds = append(s.deeds, d)
	return d
}

// begin starts the programs of the deeds from first on.
func (s *side) begin(first int) {
	for i := first; i < len(s.deeds); i++ {
		d := s.deeds[i]
		s.run.w.Go(fmt.Sprintf("%s posts %s", s.name, d.what), func(context.Context) error { return d.begin(uint64(i) + 1) })
	}
}

// begin posts the deed when its time has come, and cancels it if that is planned.
func (d *deed) begin(token uint64) error {
	s := d.side
	if err := s.sleep(d.after); err != nil || s.gone {
		return err
	}
	if d.call != nil {
		d.err = d.call()
		d.outcomes, d.at = d.outcomes+1, s.run.w.Elapsed()
		return nil
	}
	id, err := d.post(token)
	if err != nil && s.closed {
		d.outcomes, d.err, d.at = 1, err, s.run.w.Elapsed()
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: post %s: %w", s.name, d.what, err)
	}
	if d.id = id; d.cancel == 0 {
		return nil
	}
	if err := s.sleep(d.cancel); err != nil || s.gone || s.closed || d.outcomes > 0 {
		return err
	}
	if err := s.ep.Cancel(id); err != nil {
		return fmt.Errorf("%s: cancel %s: %w", s.name, d.what, err)
	}
	return nil
}

// sleep lets time pass for a program of the side, whose process may be stopped.
func (s *side) sleep(d time.Duration) error {
	if d > 0 {
		if err := s.run.w.Sleep(d); err != nil {
			return err
		}
	}
	for {
		left := s.stillUntil - s.run.w.Elapsed()
		if left <= 0 {
			return nil
		}
		if err := s.run.w.Sleep(left); err != nil {
			return err
		}
	}
}

// over reports whether all deeds have had their outcome.
func (s *side) over() bool {
	for _, d := range s.deeds {
		if d.outcomes == 0 {
			return false
		}
	}
	return true
}

// reap takes outcomes until there are all, or it is too late.
func (s *side) reap(ctx context.Context) error {
	var cs [8]efa.Completion
	for !s.over() && !s.gone && s.run.w.Elapsed() < s.run.deadline() {
		err := func() error {
			ctx, cancel := s.run.w.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			n, err := s.q.Read(ctx, cs[:])
			s.take(cs[:n])
			return err
		}()
		if s.closed && errors.Is(err, efa.ErrClosed) {
			return nil
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s: read queue: %w", s.name, err)
		}
	}
	return nil
}

func (s *side) take(cs []efa.Completion) {
	for i := range cs {
		c := &cs[i]
		if c.Token == 0 || c.Token > uint64(len(s.deeds)) {
			s.run.badf("%s: a completion of nothing: %+v", s.name, *c)
			continue
		}
		d := s.deeds[c.Token-1]
		if d.outcomes++; d.outcomes > 1 {
			s.run.badf("%s: %s ended twice, the second time with %v", s.name, d.what, c.Err)
			continue
		}
		d.err, d.at, d.proto = c.Err, s.run.w.Elapsed(), c.Protocol.String()
		if d.err == nil && d.want != nil && !bytes.Equal(d.into[:len(d.want)], d.want) {
			s.run.badf("%s: %s ended well, with other data", s.name, d.what)
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
