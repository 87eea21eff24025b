//go:build linux

package shm

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

func init() {
	roles["own"] = own
	roles["pull"] = pull
}

const remoteAll = device.LocalWrite | device.RemoteRead | device.RemoteWrite

// own has a region of this many bytes, each its place times 7, until it ends. It
// prints its queue pair's number, then key and address of the region.
func own(args []string) error {
	size, _ := strconv.Atoi(args[1])
	access, _ := strconv.Atoi(args[2])
	d, q, _, err := attach(args[0], device.QPConfig{QKey: testQKey})
	if err != nil {
		return err
	}
	mr, err := d.Alloc(size, device.Access(access))
	if err != nil {
		return err
	}
	for i := range mr.Bytes() {
		mr.Bytes()[i] = byte(i * 7)
	}
	say(q.QPN())
	say(mr.RKey(), mr.Addr())
	<-orphaned()
	if err := mr.Close(); err != nil {
		return err
	}
	return q.Close()
}

// theirs is a region of another process.
type theirs struct {
	*process
	key  uint64
	addr uint64
}

func startOwner(t testing.TB, dir string, size int, access device.Access) theirs {
	t.Helper()
	p := theirs{process: start(t, "own", dir, size, uint8(access))}
	_, err := fmt.Sscan(p.line(t), &p.key, &p.addr)
	require.NoError(t, err)
	return p
}

func (p theirs) wr(ah device.AH, kind device.WR, local []byte) *device.SendWR {
	return &device.SendWR{
		AH: ah, QPN: p.qpn, QKey: testQKey, Kind: kind, Payload: local, RKey: p.key, Remote: p.addr,
	}
}

// Two processes: what one has in a region the other reads, and the other way round.
func TestReadOtherProcess(t *testing.T) {
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{})
	p := startOwner(t, dir, maxRDMA, remoteAll)
	local := make([]byte, maxRDMA)
	require.Equal(t, device.StatusOK, statusOf(t, q, p.wr(ah, device.WRRead, local)))
	for i := range local {
		require.Equal(t, byte(i*7), local[i])
	}
	data := parcel(make([]byte, 5000), 9)
	require.Equal(t, device.StatusOK, statusOf(t, q, p.wr(ah, device.WRWrite, data)))
	require.Equal(t, device.StatusOK, statusOf(t, q, p.wr(ah, device.WRRead, local)))
	require.Equal(t, data, local[:5000])
	require.Equal(t, byte(5000*7&0xff), local[5000])
	p.end(t)
	require.True(t, statusOf(t, q, p.wr(ah, device.WRRead, local)).Gone())
	require.Len(t, names(t, dir), 2)
}

// The owner of a region is killed while others copy from it and to it. They live,
// hear of it, and in the end nothing is left of the region.
func TestKillOwner(t *testing.T) {
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{RNRRetry: 1})
	local := make([]byte, maxRDMA)
	for round := range 6 {
		p := startOwner(t, dir, 2*maxRDMA, remoteAll)
		wr := p.wr(ah, []device.WR{device.WRRead, device.WRWrite}[round%2], local)
		for range 50 {
			require.Equal(t, device.StatusOK, statusOf(t, q, wr))
		}
		require.Contains(t, names(t, dir), regionName(p.key))
		p.kill()
		gone := 0
		take := func(e device.Completion) {
			if e.Op == device.OpGone {
				require.Equal(t, p.qpn, e.SrcQPN)
				gone++
			}
		}
		var st device.Status
		for st = device.StatusOK; st == device.StatusOK; {
			require.NoError(t, q.PostSend(wr))
			for over := false; !over; {
				pollOnce(q, func(e device.Completion) {
					if take(e); e.Op == device.OpSend {
						st, over = e.Status, true
					}
				})
			}
		}
		require.True(t, st == device.StatusBadAddress || st.Gone(), "%v", st)
		for gone == 0 {
			pollOnce(q, take)
		}
		w := portBehind(q).dev.watch
		for range orphanRounds {
			w.look()
		}
		require.Len(t, names(t, dir), 2, "our own")
		require.Zero(t, portBehind(q).dev.mappings.size())
		require.True(t, statusOf(t, q, wr).Gone())
	}
}

// pull takes a lease of a region, says so and stands still in the middle of the
// copy.
func pull(args []string) error {
	key, _ := strconv.ParseUint(args[1], 10, 32)
	d, q, _, err := attach(args[0], device.QPConfig{})
	if err != nil {
		return err
	}
	v, _, err := d.(*attachment).mappings.get(key)
	if err != nil {
		return err
	}
	v.control().addLease()
	if !v.control().open() {
		return errNoRegion
	}
	say(q.QPN())
	<-orphaned()
	return nil
}

// A copying process is killed: its lease does not keep the owner.
func TestKillPuller(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{})
	dev := portBehind(q).dev
	for round := range uint64(3) {
		mr, err := dev.Alloc(100_000, remoteAll)
		require.NoError(t, err)
		p := start(t, "pull", dir, mr.RKey())
		if round > 0 { // once it lives on
			p.kill()
		}
		require.NoError(t, mr.Close())
		require.Equal(t, round+1, dev.abandoned.Load())
		require.NotContains(t, names(t, dir), regionName(mr.RKey()))
		require.Zero(t, mr.Bytes()[99_999])
	}
}

// The files of a killed owner are removed when a process opens the directory, or
// looks for the region.
func TestStaleRegions(t *testing.T) {
	dir := fabricDir(t)
	startOwner(t, dir, 1000, remoteAll).kill()
	require.Len(t, names(t, dir), 3)
	q, _ := mustAttach(t, dir, device.QPConfig{})
	require.Len(t, names(t, dir), 2)

	p := startOwner(t, dir, 1000, remoteAll)
	require.Len(t, names(t, dir), 5)
	p.kill()
	_, _, err := portBehind(q).dev.mappings.get(p.key)
	require.Equal(t, device.StatusBadAddress, portBehind(q).dev.mappings.statusOf(err))
	require.NotContains(t, names(t, dir), regionName(p.key))
}
