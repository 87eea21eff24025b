package netlab

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/clock"
)

// wire is a cable of two taps, between which this process carries frames and holds
// each for a while: netem is not in every kernel.
type wire struct {
	delay atomic.Int64 // one way, in nanoseconds
	taps  [2]*os.File
	quit  chan struct{}
	done  sync.WaitGroup
}

// heldFrames is how many frames are on the way in one direction at most; more are
// lost, as in a switch.
const heldFrames = 8192

type frame struct {
	due   clock.Time
	bytes []byte
}

// newWire connects eth0 of the host with its port of the switch.
func newWire(l *Lab, h *Host) *wire {
	l.t.Helper()
	w := &wire{quit: make(chan struct{})}
	for i, end := range [2]struct{ ns, name string }{{h.ns, "eth0"}, {l.swtch(), h.port}} {
		var err error
		require.NoError(l.t, within(end.ns, func() { w.taps[i], err = openTap(end.name) }))
		require.NoError(l.t, err, "tap %s", end.name)
	}
	for i := range w.taps {
		c := make(chan frame, heldFrames)
		w.done.Go(func() { w.receive(w.taps[i], c) })
		w.done.Go(func() { w.deliver(w.taps[1-i], c) })
	}
	return w
}

// openTap makes a tap in the namespace of the thread; its descriptor may be used anywhere.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (w *wire) receive(from *os.File, c chan<- frame) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		select {
		case <-w.quit:
			return
		default:
		}
		if err != nil { // the interface is not up yet, or down
			if !w.wait(clock.System.Now().Add(time.Millisecond)) {
				return
			}
			continue
		}
		f := frame{clock.System.Now().Add(time.Duration(w.delay.Load())), append([]byte(nil), buf[:n]...)}
		select {
		case c <- f:
		default:
		}
	}
}

func (w *wire) deliver(to *os.File, c <-chan frame) {
	for {
		select {
		case <-w.quit:
			return
		case f := <-c:
			if !w.wait(f.due) {
				return
			}
			_, _ = to.Write(f.bytes) // lost if that end is down
		}
	}
}

// wait is until then; false: the wire is closed.
func (w *wire) wait(until clock.Time) bool {
	d := until.Sub(clock.System.Now())
	if d <= 0 {
		return true
	}
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.quit:
		return false
	case <-timer.C:
		return true
	}
}

func (w *wire) close() {
	close(w.quit)
	for _, t := range w.taps {
		_ = t.Close()
	}
	w.done.Wait()
}
