package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/wire"
)

// insider is a process of the same user in the same directory. It has a queue pair of its
// own, and the segments of others mapped.
type insider struct {
	*foe
	dir     string
	dev     device.Device
	q       device.QP
	targets []*target
	victim  []*segment // its own; once its header is overwritten nobody finds it any more
	paths   []string   // of descriptors of the victim's that are sealed
}

// target is a steady peer.
type target struct {
	raw wire.RawAddr
	ah  device.AH
	seg *segment // nil: not found
	me  int      // our place in its table of senders; -1: not yet known
}

// shmFoe is a foe in shared memory.
func shmFoe(_ context.Context, f *foe) (kinds []kind, end func(), err error) {
	n := &insider{foe: f, dir: f.Dir}
	if f.Device == "auto" {
		n.dir = filepath.Join(f.Dir, fmt.Sprint("host", f.Life%2))
	}
	if n.dev, err = shm.Open(shm.Config{Dir: n.dir}); err != nil {
		return nil, nil, err
	}
	if n.q, err = n.dev.OpenQP(device.QPConfig{QKey: f.rng.Uint32(), RNRRetry: 1}); err != nil {
		return nil, nil, err
	}
	for i, a := range f.At {
		raw, ok := a.Raw("shm")
		if !ok || !n.dev.Reaches(raw.GID()) {
			continue
		}
		t := &target{raw: raw, me: -1}
		if t.ah, err = n.q.CreateAH(raw.GID()); err != nil {
			return nil, nil, err
		}
		for _, s := range segmentsOf(f.Pids[i]) {
			if s.qpn() == raw.QPN() && s.owner() == raw.GID() {
				t.seg = s
			}
		}
		if t.seg == nil {
			return nil, nil, fmt.Errorf("no segment of queue pair %d in process %d", raw.QPN(), f.Pids[i])
		}
		n.targets = append(n.targets, t)
	}
	kinds = []kind{{"file", n.file}, {"lock", n.lockedFile}, {"directory", n.directory}}
	if len(n.targets) > 0 {
		kinds = append(kinds, kind{"packets", n.packets}, kind{"packets", n.packets}, kind{"connids", n.connids},
			kind{"cell", n.cell}, kind{"cell", n.cell}, kind{"claim", n.claim}, kind{"hint", n.hint}, kind{"rdma", n.rdma})
	}
	if f.Victim != 0 {
		prey, _ := f.Prey.Raw("shm")
		for _, s := range segmentsOf(f.Victim) {
			if s.qpn() == prey.QPN() { // others' are open there as well
				n.victim = append(n.victim, s)
			}
		}
		n.paths = sealed(f.Victim)
		kinds = append(kinds, kind{"scribble", n.scribble}, kind{"scribble", n.scribble})
		if len(n.paths) > 0 {
			kinds = append(kinds, kind{"cut", n.cut})
		}
	}
	return kinds, func() {}, nil // what it holds ends with it
}

func (n *insider) target() *target { return n.targets[n.rng.IntN(len(n.targets))] }

// post sends a packet as a device does.
func (n *insider) post(t *target, p []byte) error {
	var c [16]device.Completion
	n.q.Poll(c[:])
	err := n.q.PostSend(&device.SendWR{AH: t.ah, QPN: t.raw.QPN(), QKey: t.raw.ConnID(), Header: p})
	n.q.Doorbell()
	return err
}

func (n *insider) packets() error { return n.post(n.target(), n.packet()) }

// connids is many peers in one.
func (n *insider) connids() error {
	t := n.target()
	for range 1 + n.rng.IntN(100) {
		if err := n.post(t, n.firstMessage(n.dev.Info().GID, n.q.QPN())); err != nil {
			return err
		}
	}
	return nil
}

// rdma names memory that nobody offered.
func (n *insider) rdma() error {
	t := n.target()
	var c [16]device.Completion
	n.q.Poll(c[:])
	err := n.q.PostSend(&device.SendWR{
		Kind: device.WRRead + device.WR(n.rng.IntN(2)), AH: t.ah, QPN: t.raw.QPN(), QKey: t.raw.ConnID(),
		Payload: make([]byte, 64), RKey: n.rng.Uint64() >> (32 * n.rng.IntN(2)), Remote: n.rng.Uint64() >> 16,
	})
	n.q.Doorbell()
	if errors.Is(err, device.ErrQueueFull) {
		err = nil
	}
	return err
}

// ours finds our place in a target's table of senders: a packet makes one.
func (n *insider) ours(t *target) (int, error) {
	if t.me < 0 {
		if err := n.post(t, n.packet()); err != nil {
			return 0, err
		}
		if t.me = t.seg.senderOf(n.q.QPN()); t.me < 0 {
			return 0, errTurned
		}
	}
	return t.me, nil
}

// cell claims a post as it should be, and says nonsense in its cell.
func (n *insider) cell() error {
	t := n.target()
	me, err := n.ours(t)
	if err != nil {
		return err
	}
	i, w, ok := t.seg.claim(me)
	if !ok {
		return errTurned
	}
	const ready = 3
	length, slot, lap := n.rng.Uint64N(1<<16), w>>16&0xffff, w>>48
	switch n.rng.IntN(6) {
	case 0:
		slot = n.rng.Uint64N(1 << 16)
	case 1:
		lap++
	case 2:
		me = n.rng.IntN(1 << 12)
	case 3: // a length that may be: what is in the slot is a packet
		length = n.rng.Uint64N(9000)
	}
	marks := n.rng.Uint64N(4) << 14
	t.seg.publish(i, lap<<48|length<<32|slot<<16|marks|uint64(me)<<2|ready, n.packet())
	return nil
}

// claim takes a post and says nothing; the end of this process gives it back.
func (n *insider) claim() error {
	t := n.target()
	if t.seg.kept >= 16 { // of 256: others are to have some
		return nil
	}
	me, err := n.ours(t)
	if err != nil {
		return err
	}
	if _, _, ok := t.seg.claim(me); !ok {
		return errTurned
	}
	t.seg.kept++
	return nil
}

// hint spoils the word that says where others claim.
func (n *insider) hint() error {
	n.target().seg.word(384).Store(n.rng.Uint64() >> n.rng.IntN(64))
	return nil
}

// scribble overwrites a part of the victim's segments.
func (n *insider) scribble() error {
	for _, s := range n.victim {
		b := n.noise(1 + n.rng.IntN(512))
		copy(s.mem[n.rng.IntN(len(s.mem)-len(b)):], b)
	}
	if len(n.victim) == 0 {
		return errTurned
	}
	return nil
}

// cut tries to cut sealed memory, which the kernel refuses.
func (n *insider) cut() error {
	path := n.paths[n.rng.IntN(len(n.paths))]
	if err := os.Truncate(path, n.rng.Int64N(4096)); err == nil {
		return fmt.Errorf("%w: %s was cut", errTurned, path)
	}
	return nil
}

// Names that foes give to files; foesFile knows them.

func (n *insider) name() string {
	k := n.rng.IntN(16)
	return filepath.Join(n.dir, [...]string{
		fmt.Sprintf("q0f0%x", k), fmt.Sprintf("new.f0ef0ef0e00%x", k),
		fmt.Sprintf("bell.f0ef0ef0e00%x", k), fmt.Sprintf("r0f0ef0%x0", k), fmt.Sprintf("f0e %x", k),
	}[n.rng.IntN(5)])
}

func foesFile(name string) bool {
	for _, prefix := range []string{"q0f0", "new.f0ef0e", "bell.f0ef0e", "r0f0ef0", "f0e "} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// file leaves one of garbage, or with the beginning of a segment.
func (n *insider) file() error {
	name := n.name()
	b := n.noise(n.rng.IntN(5000))
	if len(n.targets) > 0 && n.rng.IntN(2) == 0 {
		copy(b, n.target().seg.mem[:128])
	}
	if n.rng.IntN(4) == 0 {
		return ignoreExist(os.Remove(name))
	}
	return ignoreExist(os.WriteFile(name, b, 0o600))
}

// lockedFile is one that this process seems to use.
func (n *insider) lockedFile() error {
	f, err := os.OpenFile(n.name(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return ignoreExist(err)
	}
	_, _ = f.Write(n.noise(200))
	const setLock = 37 // F_OFD_SETLK
	_ = syscall.FcntlFlock(f.Fd(), setLock, &syscall.Flock_t{Type: syscall.F_WRLCK})
	if n.rng.IntN(8) == 0 {
		return nil // open for as long as this process runs, or until the collector finds it
	}
	return f.Close()
}

func (n *insider) directory() error {
	name := n.name()
	switch n.rng.IntN(3) {
	case 0:
		return ignoreExist(os.Mkdir(name, 0o700))
	case 1:
		return ignoreExist(os.Symlink("/etc/passwd", name))
	default:
		return ignoreExist(os.Remove(name))
	}
}

// ignoreExist: other files of foes may have the name.
func ignoreExist(err error) error {
	var e *os.PathError
	var l *os.LinkError
	if errors.As(err, &e) || errors.As(err, &l) {
		return nil
	}
	return err
}
