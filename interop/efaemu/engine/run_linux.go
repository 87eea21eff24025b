package engine

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How long the engine sleeps when there is nothing to do. With programs that spin
// on as many processors as there are, sleeping for less is much slower: the
// scheduler then takes the engine for one of those that want it all, and lets it
// wait for whole time slices (EFA device interface, measurements: 10 us between
// looks cost 1 to 4 ms a message, 20 to 50 us about 0.09 ms).
const (
	nap     = 30 * time.Microsecond
	longNap = time.Millisecond
	patient = 2000 // naps, 100 ms or so, before they become longer
)

// idler sleeps for the engine's thread.
type idler struct {
	naps int
	long time.Duration
}

// begin sets the thread up for precise sleeps, and returns a function that undoes
// it.
func (i *idler) begin() (end func()) {
	runtime.LockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	i.reset()
	return func() {
		if err == nil {
			_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
		}
		runtime.UnlockOSThread()
	}
}

func (i *idler) reset() { i.naps, i.long = 0, nap }

// sleep is called when there is nothing to do; brief: but soon there is.
func (i *idler) sleep(brief bool) {
	d := nap
	if i.naps++; i.naps > patient && !brief {
		i.long = min(i.long+i.long/8, longNap)
		d = i.long
	}
	// Raw: the runtime would give this thread's P away and bring it back with a
	// hand-off, which costs more than the sleep.
	ts := unix.NsecToTimespec(int64(d))
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}
