//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

func TestDirectory(t *testing.T) {
	dir := fabricDir(t)
	refused := func(path string) {
		t.Helper()
		_, err := Open(Config{Dir: path})
		require.ErrorIs(t, err, ErrDirectory)
	}
	for _, mode := range []os.FileMode{0o755, 0o710, 0o701, 0o777} {
		wide := filepath.Join(dir, fmt.Sprintf("mode%o", mode))
		require.NoError(t, os.Mkdir(wide, 0o700))
		require.NoError(t, os.Chmod(wide, mode))
		refused(wide)
	}
	good := filepath.Join(dir, "good")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(good, link))
	d, err := Open(Config{Dir: good}) // makes it
	require.NoError(t, err)
	st, err := os.Stat(good)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700)|os.ModeDir, st.Mode())
	require.NoError(t, d.Close())
	refused(link)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	refused(file)

	me := unix.Stat_t{Uid: 1000, Mode: unix.S_IFDIR | 0o700}
	require.NoError(t, checkOwner(&me, 1000))
	require.Error(t, checkOwner(&me, 0), "not even root uses another's directory")

	_, err = Open(Config{Dir: filepath.Join(dir, "no", "parent")})
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, c := range []Config{{MTU: 63}, {MTU: 1 << 16}, {MTU: -1}, {RNRDelay: -1}} {
		c.Dir = good
		_, err = Open(c)
		require.ErrorIs(t, err, ErrConfig)
	}
}

// The default directory is the user's, and the GID is the directory's.
func TestGID(t *testing.T) {
	dir, err := defaultDir(defaultParent())
	require.NoError(t, err)
	require.Contains(t, dir, fmt.Sprintf("efactor-%d", os.Geteuid()))
	dir, other := fabricDir(t), fabricDir(t)
	open := func(dir string) device.GID {
		d, err := Open(Config{Dir: dir})
		require.NoError(t, err)
		defer d.Close()
		return d.Info().GID
	}
	gid := open(dir)
	require.Equal(t, gid, open(dir))
	require.Equal(t, gid, open(filepath.Join(other, "..", filepath.Base(dir))))
	require.NotEqual(t, gid, open(other))
	require.Equal(t, []byte{0xfe, 0x80}, gid[:2])
}

// One GID for all: the handle is the same for every process, and counted.
func TestAddressHandles(t *testing.T) {
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{})
	p, _ := mustAttach(t, dir, device.QPConfig{})
	again, err := q.CreateAH(portBehind(q).gid)
	require.NoError(t, err)
	require.Equal(t, ah, again)
	require.NoError(t, q.DestroyAH(ah))
	wr := &device.SendWR{AH: ah, QPN: p.QPN()}
	require.Equal(t, device.StatusOK, statusOf(t, q, wr))
	require.NoError(t, q.DestroyAH(ah))
	require.ErrorIs(t, q.PostSend(wr), device.ErrBadAH)
	stranger, err := q.CreateAH(device.GID{1})
	require.NoError(t, err)
	require.Equal(t, device.StatusBadDestQPN, statusOf(t, q, &device.SendWR{AH: stranger, QPN: p.QPN()}))
}

// statusOf sends and waits for the completion.
func statusOf(t testing.TB, q device.QP, wr *device.SendWR) device.Status {
	t.Helper()
	require.NoError(t, q.PostSend(wr))
	q.Doorbell()
	for st := device.Status(255); ; {
		pollOnce(q, func(e device.Completion) {
			if e.Op == device.OpSend {
				st = e.Status
			}
		})
		if st != 255 {
			return st
		}
	}
}

func names(t testing.TB, dir string) (list []string) {
	t.Helper()
	es, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range es {
		list = append(list, e.Name())
	}
	return list
}

// The files of a killed process are removed when another one opens the directory,
// and never keep it from taking the number.
func TestStaleFiles(t *testing.T) {
	dir := fabricDir(t)
	start(t, "hold", dir, 1).kill()
	require.Len(t, names(t, dir), 2)
	d, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	require.Empty(t, names(t, dir))

	start(t, "hold", dir, 1).kill()
	require.Len(t, names(t, dir), 2)
	q, err := d.OpenQP(device.QPConfig{QPN: testQPN})
	require.NoError(t, err)
	require.Len(t, names(t, dir), 2)
	_, err = d.OpenQP(device.QPConfig{QPN: testQPN})
	require.ErrorIs(t, err, device.ErrQPNInUse)
	require.Len(t, names(t, dir), 2)
	require.Error(t, d.Close())
	require.NoError(t, q.Close())
	require.Empty(t, names(t, dir))

	// One that died before it was complete, and one before it had its number.
	require.NoError(t, os.WriteFile(filepath.Join(dir, segmentName(9)), []byte("x"), 0o600))
	// The bell is made before the file: d looks for orphans by itself, and removes the file and its bell together.
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, doorbellName(77)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, newName(77)), make([]byte, 5000), 0o600))
	d2, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	require.Empty(t, names(t, dir))
	require.NoError(t, d2.Close())
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.Close(), device.ErrClosed)
	_, err = d.OpenQP(device.QPConfig{})
	require.ErrorIs(t, err, device.ErrClosed)
}

// A file with a copy of another's header, whose lock is free, is removed, and the other one
// keeps its doorbell: new senders reach it.
func TestCopiedHeader(t *testing.T) {
	dir := fabricDir(t)
	victim, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN})
	b, err := os.ReadFile(filepath.Join(dir, segmentName(testQPN)))
	require.NoError(t, err)
	before := names(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, segmentName(testQPN+1)), b[:headerBytes], 0o600))
	q, ah := mustAttach(t, dir, device.QPConfig{})
	require.Subset(t, names(t, dir), before)
	require.NotContains(t, names(t, dir), segmentName(testQPN+1))
	require.Equal(t, device.StatusOK, statusOf(t, q, &device.SendWR{AH: ah, QPN: testQPN, Payload: []byte("x")}))
	require.NoError(t, victim.Close())
}

func TestForeignFiles(t *testing.T) {
	dir := fabricDir(t)
	for _, name := range []string{"hello", "q12", "q0000", "q00zz", "Q0007", "new.1", "new.zz", "bell.x", "q00070"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, segmentName(7)), 0o700))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, segmentName(8)), 0o600))
	require.NoError(t, os.Symlink("hello", filepath.Join(dir, segmentName(9))))
	before := names(t, dir)
	d, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, before, names(t, dir))
	q, err := d.OpenQP(device.QPConfig{})
	require.NoError(t, err)
	ah, err := q.CreateAH(d.Info().GID)
	require.NoError(t, err)
	for qpn := uint16(7); qpn <= 9; qpn++ {
		_, err = d.OpenQP(device.QPConfig{QPN: qpn})
		require.ErrorIs(t, err, device.ErrQPNInUse)
		wr := &device.SendWR{AH: ah, QPN: qpn}
		if qpn == 8 {
			require.Equal(t, device.StatusBadDestQPN, statusOf(t, q, wr))
		} else {
			require.ErrorIs(t, q.PostSend(wr), device.ErrUnsent)
		}
	}
	require.NoError(t, q.Close())
	require.Equal(t, before, names(t, dir))
}

func TestMTU(t *testing.T) {
	dir := fabricDir(t)
	small, err := Open(Config{Dir: dir, MTU: 4096})
	require.NoError(t, err)
	defer small.Close()
	normal, err := Open(Config{Dir: dir}) // no queue pair is open yet
	require.NoError(t, err)
	defer normal.Close()
	a, err := small.OpenQP(device.QPConfig{})
	require.NoError(t, err)
	defer a.Close()
	_, err = Open(Config{Dir: dir})
	require.ErrorIs(t, err, ErrMTU)
	b, err := normal.OpenQP(device.QPConfig{})
	require.NoError(t, err)
	defer b.Close()
	ah, err := b.CreateAH(normal.Info().GID)
	require.NoError(t, err)
	require.Equal(t, device.StatusMismatch, statusOf(t, b, &device.SendWR{AH: ah, QPN: a.QPN()}))
}

// Devices come and go in one directory at the same time: no new file is taken for a
// dead process's, and nothing is left in the end.
func TestComingAndGoing(t *testing.T) {
	dir := fabricDir(t)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for i := range 40 {
				d, err := Open(Config{Dir: dir, MTU: 256})
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				mr, err := d.Alloc(1000, remoteAll)
				if err != nil {
					t.Errorf("alloc: %v", err)
					return
				}
				if v, err := d.(*attachment).directory.mapRegion(mr.RKey()); err != nil {
					t.Errorf("own region: %v", err)
				} else {
					v.release()
				}
				q, err := d.OpenQP(device.QPConfig{RQDepth: 4, QPN: uint16(i % 2 * 21)})
				if err == nil {
					p := d.(*attachment)
					s, err := p.directory.find(segmentName(q.QPN()))
					if err != nil || !s.alive() {
						t.Errorf("own segment: %v", err)
					} else {
						s.close()
					}
					if err := q.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				} else {
					require.ErrorIs(t, err, device.ErrQPNInUse)
				}
				if err := errors.Join(mr.Close(), d.Close()); err != nil {
					t.Errorf("close: %v", err)
				}
			}
		})
	}
	wait.Wait()
	require.Empty(t, names(t, dir))
}

// A segment with an invalid header cannot be sent to.
func TestWrongHeader(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{})
	victim, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN})
	seg := portBehind(victim).seg
	good := seg.hdr
	h := new(header)
	for i := range 500 {
		*h = good
		b := unsafe.Slice((*byte)(unsafe.Pointer(h)), unsafe.Sizeof(*h))
		switch i % 4 {
		case 0:
			h.slots = rng.Uint32()
		case 1:
			h.slots += uint32(1 + rng.IntN(1000))
		default:
			b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
		}
		if h.dom = good.dom; *h != good { // the domain is the regions' concern
			require.NoError(t, writeHeader(seg.fd, h))
			st := statusOf(t, q, &device.SendWR{AH: ah, QPN: testQPN})
			require.NotEqual(t, device.StatusOK, st)
		}
	}
	require.NoError(t, writeHeader(seg.fd, &good))
	require.Equal(t, device.StatusOK, statusOf(t, q, &device.SendWR{AH: ah, QPN: testQPN}))
}

// The queue pair with the number, the GID and the Q_Key of a closed one is the one
// addressed now.
func TestSuccessor(t *testing.T) {
	dir := fabricDir(t)
	d, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	open := func(qpn uint16) device.QP {
		q, err := d.OpenQP(device.QPConfig{QPN: qpn, QKey: 5})
		require.NoError(t, err)
		return q
	}
	a, b := open(1), open(2)
	ah, err := a.CreateAH(d.Info().GID)
	require.NoError(t, err)
	mr, err := d.Alloc(8, device.RemoteRead)
	require.NoError(t, err)
	wr := &device.SendWR{AH: ah, QPN: 2, QKey: 5}
	read := &device.SendWR{AH: ah, QPN: 2, QKey: 5, Kind: device.WRRead, Payload: make([]byte, 8), Remote: mr.Addr(), RKey: mr.RKey()}
	for range 3 {
		b.PostRecv([]int32{0, 1}) // one stays
		require.Equal(t, device.StatusOK, statusOf(t, a, wr))
		require.NoError(t, b.Close())
		b = open(2)
		require.Equal(t, device.StatusOK, statusOf(t, a, read))
		require.NoError(t, b.Close())
		b = open(2)
	}
	require.NoError(t, b.Close())
	require.Equal(t, device.StatusBadDestQPN, statusOf(t, a, wr))
	require.Equal(t, device.StatusBadDestQPN, statusOf(t, a, read))
	require.NoError(t, a.Close())
	require.NoError(t, mr.Close())
	require.NoError(t, d.Close())
}

// A process that is started again at the number of one that was killed gets it also if a third
// one is removing the dead one's files at that moment.
func TestNumberBeingSwept(t *testing.T) {
	dir := fabricDir(t)
	d, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	defer d.Close()
	f := d.(*attachment).directory
	g, err := newGeometry(256, 4)
	require.NoError(t, err)
	start(t, "hold", dir, 1).kill()
	third, err := f.find(segmentName(testQPN))
	require.NoError(t, err)
	defer third.close()
	locked, err := trySweep(third.fd)
	require.NoError(t, err)
	require.True(t, locked)
	require.False(t, third.alive())
	synctest.Test(t, func(t *testing.T) {
		_, err := f.create(g, testQPN, 1) // the third one does not get on with it
		require.ErrorIs(t, err, device.ErrQPNInUse)
		made := make(chan *segment)
		go func() {
			s, err := f.create(g, testQPN, 1)
			if err != nil {
				t.Error(err)
			}
			made <- s
		}()
		synctest.Wait()
		third.close()
		s := <-made
		require.True(t, s != nil && lockedByOther(mustFind(t, f).fd))
		f.remove(s.fd, segmentName(testQPN), s.hdr.gen)
		s.close()
	})
}

func mustFind(t *testing.T, f *directory) *segment {
	s, err := f.find(segmentName(testQPN))
	require.NoError(t, err)
	t.Cleanup(s.close)
	return s
}

// TestFullFileSystem: memory that a file system has not got is an error of the reservation, which says what
// to do on one line. More than all of /dev/shm is asked for, and so nothing is taken from others.
func TestFullFileSystem(t *testing.T) {
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs("/dev/shm", &fs))
	f, err := os.CreateTemp("/dev/shm", "efactor-full-*")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Remove(f.Name()))
	require.NotZero(t, fs.Blocks, "/dev/shm has a limit")
	err = reserve(int(f.Fd()), int((fs.Blocks+1)*uint64(fs.Bsize)))
	require.ErrorIs(t, err, device.ErrNoMemory)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, err, "--shm-size=")
	require.NotContains(t, err.Error(), "\n")
	require.NoError(t, reserve(int(f.Fd()), 4096))
}
