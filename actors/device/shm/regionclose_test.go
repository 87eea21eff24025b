//go:build linux

package shm

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// A closed region is unreachable, mapped or not, its file and its memory are gone,
// and its addresses are blank.
func TestRegionClose(t *testing.T) {
	const size = 100_000
	c := newCouple(t, size, remoteAll)
	other, ah := mustAttach(t, c.dir, device.QPConfig{})
	c.ends(c.wr(device.WRWrite, []byte("before"), 0), device.StatusOK)
	f := c.file(c.mr)
	require.Greater(t, blocks(t, f), size/pageBytes)
	require.NoError(t, c.mr.Close())
	require.NotContains(t, names(t, c.dir), regionName(c.mr.RKey()))
	require.LessOrEqual(t, blocks(t, f), 1, "the first page, for those who have it mapped")
	require.Equal(t, 1, c.devA().mappings.size())
	for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
		wr := c.wr(kind, make([]byte, 6), 0)
		c.ends(wr, device.StatusBadAddress)
		wr.AH = ah
		require.Equal(t, device.StatusBadAddress, statusOf(t, other, wr))
	}
	require.Zero(t, c.devA().mappings.size())
	require.Equal(t, make([]byte, size), c.mr.Bytes())
	c.mr.Bytes()[0] = 1 // wrong, but no reason to crash
	require.ErrorIs(t, c.mr.Close(), device.ErrClosed)

	// The watcher drops regions that are no longer used.
	c.mr = c.alloc(size, remoteAll)
	c.ends(c.wr(device.WRRead, make([]byte, 6), 0), device.StatusOK)
	c.devA().watch.look()
	require.Equal(t, 1, c.devA().mappings.size())
	require.NoError(t, c.mr.Close())
	c.devA().watch.look()
	require.Zero(t, c.devA().mappings.size())
}

// A device with regions cannot be closed.
func TestDeviceCloseWithRegion(t *testing.T) {
	d, err := Open(Config{Dir: fabricDir(t)})
	require.NoError(t, err)
	for _, get := range []func() (device.MR, error){
		func() (device.MR, error) { return d.Alloc(10, 0) },
		func() (device.MR, error) { return d.Register(make([]byte, 10), 0) },
	} {
		mr, err := get()
		require.NoError(t, err)
		require.Error(t, d.Close())
		require.NoError(t, mr.Close())
	}
	require.NoError(t, d.Close())
	_, err = d.Alloc(10, 0)
	require.ErrorIs(t, err, device.ErrClosed)
	_, err = d.Register(make([]byte, 10), 0)
	require.ErrorIs(t, err, device.ErrClosed)
}

// Close waits for copies that are under way.
func TestCloseWaits(t *testing.T) {
	c := newCouple(t, 1000, remoteAll)
	c.devB().leaseWait = time.Minute
	v, _, err := c.devA().mappings.get(c.mr.RKey())
	require.NoError(t, err)
	defer v.release()
	ctl := v.control()
	ctl.addLease()
	require.True(t, ctl.open())
	var returned atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := c.mr.Close(); err != nil {
			t.Error(err)
		}
		returned.Store(true)
	})
	for ctl.open() {
		runtime.Gosched()
	}
	for range 1000 {
		runtime.Gosched()
		require.False(t, returned.Load())
	}
	v.data[0] = 1 // the owner's memory is still there, though its contents do not matter
	require.Equal(t, byte(1), c.mr.Bytes()[0])
	ctl.dropLease()
	wait.Wait()
	require.Zero(t, c.devB().abandoned.Load())
}

// A copy that never ends does not hold up Close, which abandons the pages.
func TestCloseAbandons(t *testing.T) {
	const size = 50_000
	c := newCouple(t, size, remoteAll)
	copy(c.mr.Bytes(), "old")
	v, _, err := c.devA().mappings.get(c.mr.RKey())
	require.NoError(t, err)
	v.control().addLease()
	f := c.file(c.mr)
	full := blocks(t, f)
	require.NoError(t, c.mr.Close())
	require.Equal(t, uint64(1), c.devB().abandoned.Load())
	require.Equal(t, "old", string(v.data[:3]))
	v.data[0] = 'n'
	require.Equal(t, make([]byte, size), c.mr.Bytes(), "the owner sees nothing of it")
	require.Equal(t, full, blocks(t, f))
	require.NotContains(t, names(t, c.dir), regionName(c.mr.RKey()))
	require.False(t, v.control().open())
	v.control().dropLease()
	v.release()
}

// Regions are closed while two queue pairs read them: the data of a request that
// ended well is whole.
func TestCloseUnderWay(t *testing.T) {
	const size, rounds = 32 << 10, 200
	c := newCouple(t, 64, remoteAll)
	var now atomic.Pointer[device.SendWR]
	var stop atomic.Bool
	var good [2]atomic.Int64
	var wait sync.WaitGroup
	for i := range good {
		q, ah := c.a, c.ah
		if i > 0 {
			q, ah = mustAttach(t, c.dir, device.QPConfig{})
		}
		p := portBehind(q)
		wait.Go(func() {
			local := make([]byte, size)
			for ; !stop.Load(); runtime.Gosched() {
				wr := now.Load()
				if wr == nil {
					continue
				}
				req := *wr
				req.AH, req.Payload = ah, local
				switch st := p.RDMA(&req, 0); st {
				case device.StatusOK:
					good[i].Add(1)
					for _, b := range local {
						if b != byte(wr.Imm) {
							t.Errorf("%d in a region of %d", b, byte(wr.Imm))
							return
						}
					}
				case device.StatusBadAddress:
				default:
					t.Errorf("%v", st)
				}
			}
		})
	}
	for round := range rounds {
		mr, err := c.devB().Alloc(size, device.RemoteRead)
		require.NoError(t, err)
		for i := range mr.Bytes() {
			mr.Bytes()[i] = byte(round) | 1
		}
		c.mr = mr
		wr := c.wr(device.WRRead, nil, 0)
		wr.Imm = uint32(round | 1) // what is in it
		now.Store(wr)
		for i := range good {
			for had := good[i].Load(); good[i].Load() == had && !t.Failed(); {
				runtime.Gosched()
			}
		}
		require.NoError(t, mr.Close())
	}
	stop.Store(true)
	wait.Wait()
}
