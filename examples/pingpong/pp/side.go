package pp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efadebug"
)

// Tag is on all tagged messages; the tool's.
const Tag = 1234

// Config configures a measurement. Partners must agree in Tagged, Check,
// Iterations, Warmup and Sizes.
type Config struct {
	Device     string // for efa.OpenDevice
	Progress   efa.Progress
	CPUs       []int // where pinned progress may run, see OtherCPU
	Tagged     bool  // tagged messages instead of plain ones
	Direct     bool  // without the protocol, see efa.EndpointConfig; sizes above the MTU are left out
	Datagram   bool  // beside Direct: unreliable datagrams
	Check      bool  // look at every byte
	Iterations int   // messages each way for each size; 0: as many as take some time, after a warm-up
	Warmup     int   // as many that do not count go first, in a round of their own; the tool has none
	Sizes      []int
	Capture    string // a pcapng file for every packet; "": none
}

// Info describes the fabric that carries the messages.
type Info struct {
	Device   string
	MTU      int
	Progress efa.Progress
	Reason   string // why that mode
}

// String is the sentence for the user.
func (in Info) String() string {
	return fmt.Sprintf("%s carries the traffic (MTU %d), progress is %v (%s)", in.Device, in.MTU, in.Progress, in.Reason)
}

// Side is one of the two endpoints.
type Side struct {
	cfg     Config
	dev     efa.Device
	capture *efadebug.Capture // nil: none
	ep      *efa.Endpoint
	dom     *efa.Domain // of ep
	scheme  string
	own     efa.RawAddr

	stranger bool // the partner has another GID, and has not been heard of

	mem     *efa.MemoryRegion
	tx, rx  []byte // parts of mem
	rx2     []byte // as rx, see game.expect
	out, in Pattern

	round atomic.Pointer[doing] // nil: none is played
}

// fin is the last message.
const fin = "fin\x00"

// Open opens the device and enables an endpoint on it.
func Open(ctx context.Context, cfg Config) (*Side, error) {
	dev, err := efa.OpenDevice(cfg.Device)
	if err != nil {
		return nil, fmt.Errorf("open device %q: %w", cfg.Device, err)
	}
	s := &Side{cfg: cfg, dev: dev}
	if err := s.enable(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("device %q: %w", cfg.Device, err), s.Close())
	}
	return s, nil
}

func (s *Side) enable(ctx context.Context) (err error) {
	if s.cfg.Capture != "" {
		if s.capture, err = efadebug.CreateCapture(s.cfg.Capture); err != nil {
			return err
		}
		s.dev = s.capture.Device(s.dev)
	}
	if s.ep, err = efa.OpenEndpoint(ctx, efa.Setup{
		Fabric: efa.Config{Device: s.dev}, Domain: efa.DomainConfig{Progress: s.cfg.Progress, CPUs: s.cfg.CPUs},
		Endpoint: efa.EndpointConfig{Direct: s.cfg.Direct, Datagram: s.cfg.Datagram},
	}); err != nil {
		return err
	}
	s.dom = s.ep.Domain()
	s.scheme, _, _ = strings.Cut(s.ep.Address().String(), "://")
	if s.scheme == "sim" {
		return fmt.Errorf("%w: it is a fabric inside one process, and ping-pong takes two", efa.ErrInvalid)
	}
	if s.cfg.Direct {
		if err := s.limit(); err != nil {
			return err
		}
	}
	s.own, _ = s.ep.Address().Raw(s.scheme)
	return s.alloc()
}

// limit leaves out the sizes above the MTU, as the tool does.
func (s *Side) limit() error {
	mtu := s.dom.Limits().MTU
	sizes := s.cfg.Sizes
	s.cfg.Sizes = slices.DeleteFunc(slices.Clone(sizes), func(n int) bool { return n > mtu })
	if len(s.cfg.Sizes) == 0 && len(sizes) > 0 {
		return fmt.Errorf("%w: without the protocol a message has %d bytes at most", efa.ErrMsgSize, mtu)
	}
	return nil
}

// alloc makes the buffers, large enough for every size and for the last message.
func (s *Side) alloc() (err error) {
	size := max(slices.Max(append(s.cfg.Sizes, 0)), len(fin))
	if s.mem, err = s.dom.Alloc(3*size, efa.AccessSend|efa.AccessRecv); err != nil {
		return err
	}
	b := s.mem.Bytes()
	clear(b) // has the pages there before the clock runs
	s.tx, s.rx, s.rx2 = b[:size:size], b[size:2*size:2*size], b[2*size:]
	return nil
}

// Info describes the fabric that carries the messages.
func (s *Side) Info() Info {
	l := s.dom.Limits()
	return Info{Device: l.Device, MTU: l.MTU, Progress: s.dom.Progress(), Reason: s.dom.ProgressReason()}
}

// Close releases everything.
func (s *Side) Close() error {
	var errs []error
	if s.mem != nil {
		errs = append(errs, s.mem.Close())
	}
	if s.ep != nil {
		errs = append(errs, s.ep.Close())
	}
	errs = append(errs, s.dev.Close())
	if s.capture != nil {
		errs = append(errs, s.capture.Close())
	}
	return errors.Join(errs...)
}
