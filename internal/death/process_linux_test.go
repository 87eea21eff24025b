package death

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// The test binary is also the victim's process: with childVar set it carries out its half
// of a play, and at a packet of the tap does to itself what it was ordered to.
const childVar = "EFACTOR_DEATH_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childVar); text != "" {
		var o order
		err := json.Unmarshal([]byte(text), &o)
		if err == nil {
			err = o.obey()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// order is what a victim's process does.
type order struct {
	Device string // "shm" or "tcp"
	Dir    string // of shm
	QPN    uint16
	Play   int // index in plays; -1: nothing but to answer
	Role   int
	At     moment
	Do     string // "kill", "stop" or "cut"; "": it says which packets it sees
	Brief  bool   // its PeerTimeout, and that of the other side, is realShort
}

// moment is the nth packet of a type that leaves or reaches the victim.
type moment struct {
	Out  bool
	Type string
	Nth  int
}

func (m moment) String() string {
	way := "in"
	if m.Out {
		way = "out"
	}
	return fmt.Sprintf("%s %d %s", way, m.Nth, m.Type)
}

// What real processes are given: they share their processors with others. With realShort,
// where it is silence that has to tell, a row takes less time.
const (
	realProbe    = 200 * time.Millisecond
	realPatience = 5 * time.Second
	realShort    = time.Second
)

func (o *order) patience() time.Duration {
	if o.Brief {
		return realShort
	}
	return realPatience
}

// trigger is a tap's sink that strikes at a moment.
type trigger struct {
	clock.Clock
	o     *order
	armed atomic.Bool
	mu    sync.Mutex
	seen  map[moment]int
}

// Packet implements tap.Sink.
func (g *trigger) Packet(r tap.Record) {
	if !g.armed.Load() {
		return
	}
	name := fmt.Sprintf("RDMA %d", r.Kind)
	if len(r.Packet) > 0 {
		name = wire.Type(r.Packet[0]).String()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := moment{Out: r.Out, Type: name}
	g.seen[m]++
	m.Nth = g.seen[m]
	if g.o.Do == "" {
		fmt.Println("sees", m)
	} else if m == g.o.At {
		fmt.Println("strikes")
		strikeSelf(g.o.Do)
	}
}

func strikeSelf(what string) {
	switch what {
	case "kill":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case "stop":
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	case "cut":
		for fd := range 256 {
			if at, err := unix.Getpeername(fd); err == nil {
				if _, ok := at.(*unix.SockaddrInet4); ok {
					_ = unix.Shutdown(fd, unix.SHUT_RDWR)
				}
			}
		}
	}
}

// openReal opens a side on a real device.
func openReal(o *order, p *play, sink *trigger) (*side, error) {
	var dev efa.Device
	var err error
	if o.Device == "shm" {
		dev, err = shm.Open(shm.Config{Dir: o.Dir, MTU: mtu})
	} else {
		dev, err = tcp.Open(tcp.Config{MTU: mtu})
	}
	if err != nil {
		return nil, err
	}
	if sink != nil {
		dev = tap.Wrap(dev, sink)
	}
	s := &side{}
	if s.fab, err = efa.Open(efa.Config{Device: dev}); err != nil {
		return nil, err
	}
	if s.dom, err = s.fab.OpenDomain(efa.DomainConfig{}); err != nil {
		return nil, err
	}
	if s.q, err = s.dom.NewQueue(256); err != nil {
		return nil, err
	}
	s.av = s.dom.NewAddressVector()
	cfg := efa.EndpointConfig{AV: s.av, SendQueue: s.q, RecvQueue: s.q, QPN: o.QPN, Protocol: p.protocol(realProbe, o.patience())}
	cfg.Protocol.NoRDMARead, cfg.Protocol.NoRDMAWrite = !p.dev.RDMARead, !p.dev.RDMAWrite
	if s.ep, err = s.dom.NewEndpoint(cfg); err != nil {
		return nil, err
	}
	if err = s.ep.Enable(context.Background()); err != nil {
		return nil, err
	}
	if s.mem, err = s.dom.Alloc(region, efa.AccessRemoteRead|efa.AccessRemoteWrite); err != nil {
		return nil, err
	}
	copy(s.mem.Bytes(), pattern(region, 3)) // before the other side can ask for it
	if s.buf, err = s.dom.Alloc(region, efa.AccessSend|efa.AccessRecv); err != nil {
		return nil, err
	}
	s.at = s.mem.Remote()
	return s, nil
}

// card is what the other side needs to know: address and memory.
func (s *side) card() string {
	b, err := s.at.MarshalBinary()
	must(err)
	return fmt.Sprintf("%s %s", s.ep.Address(), hex.EncodeToString(b))
}

// meet takes the other's card.
func (s *side) meet(card string) (*side, error) {
	text, mem, ok := strings.Cut(strings.TrimSpace(card), " ")
	if !ok {
		return nil, fmt.Errorf("no card: %q", card)
	}
	a, err := efa.ParseAddress(text)
	if err != nil {
		return nil, err
	}
	if s.to, err = s.av.Insert(a); err != nil {
		return nil, err
	}
	b, err := hex.DecodeString(mem)
	if err != nil {
		return nil, err
	}
	other := &side{}
	return other, other.at.UnmarshalBinary(b)
}

// Tags of what is not of the play.
const (
	askTag   = 99
	replyTag = 98
)

// obey is the victim's process.
func (o *order) obey() error {
	p := play{}
	if o.Play >= 0 {
		p = plays()[o.Play]
	}
	g := &trigger{Clock: clock.System, o: o, seen: map[moment]int{}}
	s, err := openReal(o, &p, g)
	if err != nil {
		return err
	}
	fmt.Println(s.card())
	in := bufio.NewReader(os.Stdin)
	card, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	other, err := s.meet(card)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	acquainted := make(chan struct{})
	go func() { // the parent says the end, or is gone
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			if line == "known\n" {
				close(acquainted)
				continue
			}
			snap, err := s.ep.Snapshot(ctx)
			must(err)
			fmt.Println("left", left(snap))
		}
		cancel()
	}()
	if err := s.reply(ctx, 1); err != nil {
		return err
	}
	if err := s.known(ctx); err != nil {
		return err
	}
	select {
	case <-acquainted: // else its HANDSHAKE may still be under way at the moment
	case <-ctx.Done():
		return nil
	}
	if o.Play >= 0 {
		g.armed.Store(true)
		fmt.Println("ready")
		if o.Role == 0 {
			p.act(s, other)
		} else {
			p.act(other, s)
		}
		s.postReal()
		go func() {
			s.reapReal(ctx, func(d *deed) { fmt.Println("done", d.err == nil, d.what, d.err) })
			fmt.Println("over")
		}()
	}
	if err := s.reply(ctx, -1); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// reply answers n messages, or all there are.
func (s *side) reply(ctx context.Context, n int) error {
	for ; n != 0; n-- {
		var b [8]byte
		if _, err := s.ep.RecvTag(ctx, efa.Match{Tag: askTag}, b[:]); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		_ = s.ep.SendTag(ctx, s.to, replyTag, b[:]) // the asker sees whether it comes
	}
	return nil
}

// known waits until the other side's HANDSHAKE is there, so that what is chosen is the same
// each time.
func (s *side) known(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, testenv.Hang)
	defer cancel()
	for {
		snap, err := s.ep.Snapshot(ctx)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no HANDSHAKE: %+v", snap.Peers)
		}
		if slices.ContainsFunc(snap.Peers, func(p peer.Snapshot) bool { return p.Handshake == "both" }) {
			return nil
		}
		<-clock.NewTimer(time.Millisecond).C
	}
}

// postReal posts all deeds.
func (s *side) postReal() {
	for i, d := range s.deeds {
		id, err := d.post(uint64(i) + 1)
		if d.id = id; err != nil {
			d.outcomes, d.err = 1, err
		}
	}
}

// reapReal takes all outcomes, or as many as come before ctx ends.
func (s *side) reapReal(ctx context.Context, each func(*deed)) {
	var cs [8]efa.Completion
	for !s.over() {
		n, err := s.q.Read(ctx, cs[:])
		for _, c := range cs[:n] {
			d := s.deeds[c.Token-1]
			d.outcomes++
			d.err, d.proto = c.Err, c.Protocol.String()
			each(d)
		}
		if err != nil {
			return
		}
	}
}
