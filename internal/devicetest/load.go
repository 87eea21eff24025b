package devicetest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
)

var loadCases = []testCase{
	{name: "ManySenders", devices: 4, run: (*world).manySenders},
	{name: "AllToAll", devices: 3, run: (*world).allToAll},
}

// loadPackets is what each sender of a load case sends, divisible by three receivers.
func (w *world) loadPackets() int {
	n := 600
	if testenv.Short() {
		n = 150
	}
	if w.f.Hardware { // an emulated card does for each packet what a card does by itself
		n /= 5
	}
	return n
}

// loader is a queue pair under load. Its step does a little of everything, so
// that cases run with a goroutine each or all in one.
type loader struct {
	*node
	id      uint64
	targets []*node
	ahs     []device.AH
	posted  int // so far
	total   int
	want    int // arrivals
	bufs    [][]byte
	seen    map[uint64]bool
}

func (w *world) loader(n *node, id uint64, total, want int, targets ...*node) *loader {
	l := &loader{node: n, id: id, total: total, want: want, targets: targets, seen: map[uint64]bool{}}
	for _, to := range targets {
		l.ahs = append(l.ahs, n.ah(to))
	}
	l.bufs = make([][]byte, total)
	return l
}

func (l *loader) finished() bool { return len(l.sends) == l.total && len(l.seen) == l.want }

func (l *loader) String() string {
	return fmt.Sprintf("%d of %d sends, %d of %d arrivals", len(l.sends), l.total, len(l.seen), l.want)
}

// step posts a few, polls, and checks what came.
func (l *loader) step() error {
	for range 5 {
		if l.posted == l.total {
			break
		}
		to := l.posted % len(l.targets)
		tag := l.id<<32 | uint64(l.posted)
		if l.bufs[l.posted] == nil {
			l.bufs[l.posted] = fill(make([]byte, 8+int(tag*7919)%(l.mtu-7)), tag)
		}
		buf := l.bufs[l.posted]
		err := l.PostSend(l.wr(l.ahs[to], l.targets[to], buf[:8], buf[8:]))
		if errors.Is(err, device.ErrQueueFull) {
			l.nextID--
			break
		}
		if err != nil {
			return err
		}
		l.posted++
	}
	l.Doorbell()
	if got := l.Poll(l.comps[:]); got > 0 {
		for i := range l.comps[:got] {
			if err := l.take(&l.comps[i]); err != nil {
				return err
			}
		}
	}
	for _, p := range l.recvs {
		tag, whole := tagOf(p.data)
		switch {
		case !whole:
			return fmt.Errorf("a packet of %d bytes is not whole", p.Len)
		case l.seen[tag]:
			return fmt.Errorf("packet %x arrived twice", tag)
		}
		l.seen[tag] = true
	}
	l.recvs = l.recvs[:0]
	for id, st := range l.sends {
		if st != device.StatusOK {
			return fmt.Errorf("send %d: %v", id, st)
		}
	}
	return nil
}

// worker does a part of its task at each step.
type worker interface {
	step() error
	finished() bool
	String() string // how far it came
}

// drive runs workers to their end, each in its goroutine if the fabric allows.
func (w *world) drive(workers []worker) {
	w.Helper()
	if w.f.Single {
		for done := false; !done; {
			done = true
			for _, l := range workers {
				require.NoError(w, l.step())
				done = done && l.finished()
			}
			for range 4 {
				w.f.Progress()
			}
			require.NoError(w, w.ctx.Err())
		}
		return
	}
	errs := make([]error, len(workers))
	// A worker goes on until all have finished: some drivers move packets
	// only while both sides poll.
	var all, wait sync.WaitGroup
	all.Add(len(workers))
	stop := make(chan struct{})
	for i, l := range workers {
		wait.Go(func() {
			told := false
			tell := func() {
				if !told {
					told = true
					all.Done()
				}
			}
			defer tell()
			for {
				if errs[i] = l.step(); errs[i] != nil {
					return
				}
				if l.finished() {
					tell()
				}
				select {
				case <-stop:
					return
				case <-w.ctx.Done():
					errs[i] = fmt.Errorf("%v: %w", l, w.ctx.Err())
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	all.Wait()
	close(stop)
	wait.Wait()
	require.NoError(w, errors.Join(errs...))
}

// manySenders crowds one receiver with few slots: everything arrives once and
// whole.
func (w *world) manySenders() {
	last := len(w.f.Devices) - 1
	depth := 8
	if w.f.Hardware { // an emulated card takes a while to notice a receive, and waits longer after each RNR
		depth = 64
	}
	dst := w.open(last, device.QPConfig{RQDepth: depth, QKey: 3})
	var loaders []worker
	for i := range last {
		for range 2 {
			n := w.open(i, device.QPConfig{SQDepth: 16, RQDepth: 1, RNRRetry: 7})
			loaders = append(loaders, w.loader(n, uint64(len(loaders)), w.loadPackets(), 0, dst))
		}
	}
	sink := w.loader(dst, 99, 0, w.loadPackets()*len(loaders))
	w.drive(append(loaders, sink))
}

// allToAll makes each send to all, itself included.
func (w *world) allToAll() {
	var nodes []*node
	for i := range w.f.Devices {
		nodes = append(nodes, w.open(i, device.QPConfig{SQDepth: 8, RQDepth: 16, RNRRetry: 7, QKey: uint32(i) + 50}))
	}
	var loaders []worker
	for i, n := range nodes {
		loaders = append(loaders, w.loader(n, uint64(i), w.loadPackets(), w.loadPackets(), nodes...))
	}
	w.drive(loaders)
}
