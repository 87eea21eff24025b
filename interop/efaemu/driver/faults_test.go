//go:build linux

package driver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/interop/efaemu/driver"
	"github.com/efactor/efactor/interop/efaemu/faults"
	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// openFaulty opens the driver on a card that does what a list has. Nothing may be left at the
// end of the test.
func openFaulty(t *testing.T, list string) (device.Device, *driver.Card, error) {
	fab, err := sim.New(sim.Config{})
	require.NoError(t, err)
	carrier, err := fab.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	plan, err := faults.Parse(list)
	require.NoError(t, err)
	card, err := driver.NewFaulty(carrier, named(t, "efa", nil), plan)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Equal(t, kernel.Stats{}, card.Kernel.Stats(), "left behind")
		require.NoError(t, card.Close())
	})
	d, err := uverbs.Open(uverbs.Config{Path: "/dev/infiniband/uverbs0", Kernel: card.System()})
	return d, card, err
}

// play sends packets of a queue pair to itself, one at a time, and holds every completion
// that the driver passes on to what is so: an end of a request that is under way, a packet
// in a slot that is posted, of the bytes that were sent. It returns how the queue pair has
// ended, or the status of a send that failed, or that nothing came any more. ends: it is sure
// to end, if not now.
func play(t *testing.T, d device.Device, card *driver.Card, ends bool) string {
	qp, err := d.OpenQP(device.QPConfig{SQDepth: 4, RQDepth: 8})
	require.NoError(t, err)
	defer func() { require.NoError(t, qp.Close()) }()
	to, err := qp.CreateAH(d.Info().GID)
	require.NoError(t, err)
	posted := map[uint64]bool{}
	for i := range qp.RecvSlots() {
		qp.PostRecv([]int32{int32(i)})
		posted[uint64(i)] = true
	}
	for n := range 12 {
		p := make([]byte, 8+n*100)
		for i := range p {
			p[i] = byte(i + n)
		}
		if err := qp.PostSend(&device.SendWR{ID: uint64(n), AH: to, QPN: qp.QPN(), Payload: p}); err != nil {
			require.ErrorIs(t, err, device.ErrClosed)
			return "closed"
		}
		qp.Doorbell()
		sent, got := false, false
		for idle := 0; !sent || !got; idle++ {
			if idle == 20_000 {
				return fmt.Sprintf("nothing after %d", n)
			}
			if !card.Engine.Step() && idle > 100 {
				qp.Arm() // reads events, as who sleeps does
			}
			var cs [4]device.Completion
			for _, c := range cs[:qp.Poll(cs[:])] {
				switch c.Op {
				case device.OpFatal:
					return "fatal: " + c.Status.String()
				case device.OpSend:
					require.Equal(t, uint64(n), c.ID)
					require.False(t, sent, "twice")
					if sent = true; c.Status != device.StatusOK {
						return c.Status.String()
					}
				case device.OpRecv:
					require.True(t, posted[c.ID], "slot %d", c.ID)
					require.False(t, got, "twice")
					require.LessOrEqual(t, c.Len, d.Info().MTU)
					if got = true; c.Status == device.StatusOK && c.Len == len(p) {
						require.Equal(t, p, qp.RecvBytes(int(c.ID))[:c.Len])
					}
					qp.PostRecv([]int32{int32(c.ID)})
				case device.OpWritten, device.OpRefused, device.OpGone:
					t.Fatalf("completion %+v", c)
				}
			}
		}
	}
	if !ends {
		return "all went well"
	}
	return awaitEnd(t, qp)
}

// awaitEnd waits for the event that ends the queue pair.
func awaitEnd(t *testing.T, qp device.QP) string {
	var fds []unix.PollFd
	for _, fd := range qp.FDs() {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for range 3000 {
		var c [1]device.Completion
		if qp.Arm(); qp.Poll(c[:]) == 1 && c[0].Op == device.OpFatal {
			return "fatal: " + c[0].Status.String()
		}
		if _, err := unix.Poll(fds, 10); err != nil {
			require.ErrorIs(t, err, unix.EINTR)
		}
	}
	return "it does not end"
}

// TestFaults: whatever the card does wrong, and when, ends in an error or in silence, which
// is its peers' to notice; never in a completion of what was not posted, nor in memory that
// is not ours. A queue pair that was opened before it is closed without a trace.
func TestFaults(t *testing.T) {
	lies := []string{"fatal: local queue pair internal error", "closed"}
	for name, want := range map[string][]string{
		// A send has no length, and that of a packet is held to the MTU.
		"length": append(lies, "all went well"),
		// A request that was not posted, or a receive; or one of a queue pair before it,
		// of which the completion that was meant is missed.
		"id":    append(lies, "nothing"),
		"qpn":   {"nothing"},
		"queue": lies,
		// Entries that look like those of the lap before are not seen.
		"phase": {"nothing"},
		// The second is of a request that has ended; that of a former use is dropped.
		"twice":     append(lies, "all went well"),
		"overrun":   append(lies, "all went well", "nothing"),
		"cq-error":  lies,
		"qp-fatal":  lies,
		"reset":     append(lies, "fatal: remote connection was reset"), // mappings may read as zeros first
		"port-down": {"no path to the remote side", "all went well"},
	} {
		for n := 1; n <= 9; n += 2 - n%2 {
			list := fmt.Sprintf("%s@%d", name, n)
			t.Run(list, func(t *testing.T) {
				d, card, err := openFaulty(t, list)
				require.NoError(t, err)
				defer func() { require.NoError(t, d.Close()) }()
				got := play(t, d, card, name == "reset" || strings.HasSuffix(name, "fatal") || name == "cq-error")
				found := false
				for _, w := range want {
					found = found || len(got) >= len(w) && got[:len(w)] == w
				}
				require.True(t, found, "%q", got)
			})
		}
	}
	for s := 1; s < 256; s += 13 {
		t.Run(fmt.Sprintf("status %d", s), func(t *testing.T) {
			d, card, err := openFaulty(t, fmt.Sprintf("status@3=%d,status@4=%d", s, s))
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			require.Equal(t, device.Status(s).String(), play(t, d, card, false))
		})
	}
}

// TestFaultyCommands: the n-th command fails, or the device is gone by then: an error says
// so, and nothing is left.
func TestFaultyCommands(t *testing.T) {
	for _, list := range []string{"command@%d", "command@%d=ENOMEM", "gone@%d"} {
		failed := 0
		for n := 1; n <= 40; n++ {
			d, _, err := openFaulty(t, fmt.Sprintf(list, n))
			if err != nil {
				failed++
				continue
			}
			mr, err := d.Alloc(10_000, device.LocalWrite)
			if err == nil {
				var qp device.QP
				if qp, err = d.OpenQP(device.QPConfig{}); err == nil {
					_, err = qp.CreateAH(d.Info().GID)
					if cerr := qp.Close(); err == nil {
						err = cerr
					}
				}
				if cerr := mr.Close(); err == nil {
					err = cerr
				}
			}
			if cerr := d.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				failed++
			}
		}
		require.Greater(t, failed, 12, list)
	}
}

// TestMemlock: registrations beyond the limit are refused, and those that were closed count
// no more.
func TestMemlock(t *testing.T) {
	d, _, err := openFaulty(t, "memlock=1000000")
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	for range 3 {
		a, err := d.Alloc(600_000, device.LocalWrite)
		require.NoError(t, err)
		_, err = d.Alloc(600_000, device.LocalWrite)
		require.ErrorIs(t, err, device.ErrNoMemory)
		require.NoError(t, a.Close())
	}
}

// TestQuietAfterReset: an event that comes while nobody looks is found when somebody does.
func TestQuietAfterReset(t *testing.T) {
	d, card, err := openFaulty(t, "")
	require.NoError(t, err)
	qp, err := d.OpenQP(device.QPConfig{})
	require.NoError(t, err)
	card.Kernel.Remove()
	require.Contains(t, awaitEnd(t, qp), "fatal: ")
	require.NoError(t, qp.Close())
	require.NoError(t, d.Close())
}
