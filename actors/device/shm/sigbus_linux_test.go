//go:build linux

package shm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

func init() { roles["cut"] = beCut }

// beCut answers each packet with one, and says when its queue pair has ended.
func beCut(args []string) error {
	d, err := Open(Config{Dir: args[0], Files: args[1] == "true"})
	if err != nil {
		return err
	}
	q, err := d.OpenQP(device.QPConfig{QKey: testQKey, RNRRetry: 7})
	if err != nil {
		return err
	}
	mr, err := d.Alloc(100_000, device.RemoteRead|device.RemoteWrite)
	if err != nil {
		return err
	}
	ah, err := q.CreateAH(d.Info().GID)
	if err != nil {
		return err
	}
	q.PostRecv([]int32{0, 1, 2, 3})
	say(q.QPN())
	say(mr.RKey(), mr.Addr())
	end := orphaned()
	var c [16]device.Completion
	for {
		for _, e := range c[:q.Poll(c[:])] {
			switch e.Op {
			case device.OpRecv:
				back := device.SendWR{AH: ah, QPN: e.SrcQPN, QKey: testQKey, Payload: []byte("back")}
				if err := q.PostSend(&back); err != nil {
					return err
				}
				q.PostRecv([]int32{int32(e.ID)})
			case device.OpFatal:
				say("fatal")
			}
		}
		select {
		case <-end:
			return nil
		default:
		}
	}
}

// cutter is a test that cuts files under processes.
type cutter struct {
	*testing.T
	dir  string
	d    device.Device
	q    device.QP
	ah   device.AH
	seen []device.Completion
}

func newCutter(t *testing.T, files bool) *cutter {
	c := &cutter{T: t, dir: fabricDir(t)}
	var err error
	c.d, err = Open(Config{Dir: c.dir, Files: files})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.d.Close()) })
	c.q = c.open()
	c.ah, err = c.q.CreateAH(c.d.Info().GID)
	require.NoError(t, err)
	return c
}

func (c *cutter) open() device.QP {
	q, err := c.d.OpenQP(device.QPConfig{QKey: testQKey, RNRRetry: 7})
	require.NoError(c, err)
	c.Cleanup(func() { require.NoError(c, q.Close()) })
	q.PostRecv([]int32{0, 1, 2, 3})
	return q
}

// cut cuts what is at a path to nothing; false: the kernel forbids it.
func cut(path string) bool { return os.Truncate(path, 0) == nil }

// cutPeer is a process that is cut.
type cutPeer struct {
	*process
	key  uint64
	addr uint64
}

func (c *cutter) start(files bool) *cutPeer {
	v := &cutPeer{process: start(c, "cut", c.dir, files)}
	_, err := fmt.Sscan(v.line(c), &v.key, &v.addr)
	require.NoError(c, err)
	return v
}

// do posts a request and gives its status.
func (c *cutter) do(wr device.SendWR) device.Status {
	c.Helper()
	wr.AH, wr.QKey = c.ah, testQKey
	require.NoError(c, c.q.PostSend(&wr))
	return c.until(device.OpSend).Status
}

// until polls until there is a completion of a kind.
func (c *cutter) until(op device.Op) device.Completion {
	c.Helper()
	var cs [4]device.Completion
	for {
		for i, e := range c.seen {
			if e.Op == op {
				c.seen = append(c.seen[:i:i], c.seen[i+1:]...)
				return e
			}
		}
		c.seen = append(c.seen, cs[:c.q.Poll(cs[:])]...)
	}
}

// greet exchanges packets with a victim, and RDMA.
func (c *cutter) greet(v *cutPeer) {
	c.Helper()
	require.Equal(c, device.StatusOK, c.do(device.SendWR{QPN: v.qpn, Payload: []byte("hello")}))
	e := c.until(device.OpRecv)
	require.Equal(c, v.qpn, e.SrcQPN)
	c.q.PostRecv([]int32{int32(e.ID)})
	for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
		require.Equal(c, device.StatusOK, c.do(v.rdma(kind)))
	}
}

func (v *cutPeer) rdma(kind device.WR) device.SendWR {
	return device.SendWR{QPN: v.qpn, Kind: kind, Payload: make([]byte, 100_000), RKey: v.key, Remote: v.addr}
}

// TestSealed: neither the files of the directory nor the memory itself can be cut under those
// that use them. Processes that are connected do not notice, others find nobody.
func TestSealed(t *testing.T) {
	c := newCutter(t, false)
	v := c.start(false)
	c.greet(v)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.cmd.Process.Pid))
	require.NoError(t, err)
	memories := 0
	for _, e := range fds {
		path := fmt.Sprintf("/proc/%d/fd/%s", v.cmd.Process.Pid, e.Name())
		if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, "/memfd:"+sealedName) {
			memories++
			require.False(t, cut(path), target)
			st, err := os.Stat(path)
			require.NoError(t, err)
			require.ErrorIs(t, os.Truncate(path, st.Size()-1), unix.EPERM)
			require.NoError(t, os.Truncate(path, st.Size()+1), "it may grow")
		}
	}
	require.Equal(t, 2, memories, "a queue pair and a region")
	for _, name := range names(t, c.dir) {
		if !strings.HasPrefix(name, "bell") {
			require.True(t, cut(filepath.Join(c.dir, name)), name)
		}
	}
	c.greet(v)
	stranger := c.open()
	ah, err := stranger.CreateAH(c.d.Info().GID)
	require.NoError(t, err)
	require.Equal(t, device.StatusBadDestQPN, statusOf(t, stranger, &device.SendWR{AH: ah, QPN: v.qpn, QKey: testQKey}))
	c.greet(v)
	v.end(t)
}

// TestCut: with Config.Files a file that is cut is the end of what it was, and of nothing else:
// of a segment, the queue pair on its owner's side and the connection to it on others', of a
// region, the requests for it.
func TestCut(t *testing.T) {
	if raceOn {
		t.Skip("the race detector does atomic operations in C, where a fault cannot become a panic")
	}
	c := newCutter(t, true)
	good, v := c.start(true), c.start(true)
	c.greet(good)
	c.greet(v)

	require.True(t, cut(filepath.Join(c.dir, regionName(v.key))))
	for range 3 {
		for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
			require.Equal(t, device.StatusBadAddress, c.do(v.rdma(kind)))
		}
	}
	require.Equal(t, device.StatusOK, c.do(device.SendWR{QPN: v.qpn, Payload: []byte("hello")}))
	c.q.PostRecv([]int32{int32(c.until(device.OpRecv).ID)})
	c.greet(good)

	require.True(t, cut(filepath.Join(c.dir, segmentName(v.qpn))))
	for range 3 {
		st := c.do(device.SendWR{QPN: v.qpn, Payload: []byte("hello")})
		require.True(t, st.Gone(), st.String())
	}
	require.Equal(t, v.qpn, c.until(device.OpGone).SrcQPN)
	require.Equal(t, "fatal", v.line(t))
	c.greet(good)

	other := c.open()
	require.True(t, cut(filepath.Join(c.dir, segmentName(c.q.QPN()))))
	c.until(device.OpFatal)
	require.ErrorIs(t, c.q.PostSend(&device.SendWR{AH: c.ah, QPN: good.qpn, QKey: testQKey}), device.ErrClosed)
	c.q = other
	ah, err := other.CreateAH(c.d.Info().GID)
	require.NoError(t, err)
	c.ah = ah
	c.greet(good)
	v.end(t)
	good.end(t)
}

// TestOtherMemory: what a file says of the memory may be wrong, or of a process that is no
// more: then nobody is there, and nothing else is mapped for it.
func TestOtherMemory(t *testing.T) {
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{})
	victim, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN})
	seg, own := portBehind(victim).seg, portBehind(q).seg
	for what, c := range map[string]struct {
		change func(*sealedAt)
		want   device.Status
	}{
		"another's memory":     {func(at *sealedAt) { *at = own.hdr.sealed }, device.StatusBadDestQPN},
		"no memory":            {func(at *sealedAt) { at.fd = 1 }, device.StatusBadDestQPN},
		"no descriptor":        {func(at *sealedAt) { at.fd = 1 << 20 }, device.StatusBadDestQPN},
		"no process":           {func(at *sealedAt) { at.process.pid = 1 << 22 }, device.StatusBadDestQPN},
		"another namespace":    {func(at *sealedAt) { at.process.space++ }, device.StatusUnreachable},
		"memory in this file":  {func(at *sealedAt) { *at = sealedAt{} }, device.StatusBadDestQPN},
		"an unknown namespace": {func(at *sealedAt) { at.process.space = 0 }, device.StatusUnreachable},
	} {
		h := seg.hdr
		c.change(&h.sealed)
		require.NoError(t, writeHeader(seg.fd, &h))
		require.Equal(t, c.want, statusOf(t, q, &device.SendWR{AH: ah, QPN: testQPN}), what)
	}
	require.NoError(t, writeHeader(seg.fd, &seg.hdr))
	require.Equal(t, device.StatusOK, statusOf(t, q, &device.SendWR{AH: ah, QPN: testQPN}))
}

// TestOtherNamespace: a process in another namespace of process numbers has another GID, and
// with Config.Files on both sides the same; without a /proc of that namespace, as here, it has them unasked.
func TestOtherNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a namespace takes root")
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	c := newCutter(t, true)
	v := &cutPeer{}
	for _, files := range []bool{true, false} {
		v.process = startWith(t, attr, "cut", c.dir, files)
		_, err := fmt.Sscan(v.line(t), &v.key, &v.addr)
		require.NoError(t, err)
		c.greet(v)
		v.end(t)
	}

	c = newCutter(t, false)
	v.process = startWith(t, attr, "cut", c.dir, false)
	require.Equal(t, device.StatusBadDestQPN, c.do(device.SendWR{QPN: v.qpn, Payload: []byte("hello")}))
	s, err := c.d.(*attachment).directory.find(segmentName(v.qpn))
	require.NoError(t, err)
	defer s.close()
	require.NotEqual(t, c.d.Info().GID, s.hdr.gid)
	v.line(t)
	v.end(t)
}

// TestCutThenDead: the news of a death is how a queue pair finds out that the segment of
// the dead was cut before.
func TestCutThenDead(t *testing.T) {
	c := newCutter(t, true)
	good, v := c.start(true), c.start(true)
	c.greet(good)
	c.greet(v)
	require.True(t, cut(filepath.Join(c.dir, segmentName(v.qpn))))
	v.kill()
	require.Equal(t, v.qpn, c.until(device.OpGone).SrcQPN)
	require.Equal(t, device.StatusBadDestQPN, c.do(device.SendWR{QPN: v.qpn, Payload: []byte("hello")}))
	c.greet(good)
	good.end(t)
}

// TestCutIsClosedOnce: a link that is found to be cut while it is disconnected is closed by
// that. Its bell's descriptor may be another file's at once.
func TestCutIsClosedOnce(t *testing.T) {
	c := newCutter(t, true)
	v := c.start(true)
	c.greet(v)
	p := portOf(t, c.d)
	l := p.links.get(v.qpn)
	require.EqualValues(t, 2, l.peer.users.n.Load(), "the watcher's, and the link's")
	require.True(t, cut(filepath.Join(c.dir, segmentName(v.qpn))))
	p.disconnect(l)
	require.EqualValues(t, 1, l.peer.users.n.Load())
	v.end(t)
}

// TestCutOwnMemory: a request whose bytes are in a region of ours that was cut panics, and leaves
// no lease on the other side's region, and no use of its mapping.
func TestCutOwnMemory(t *testing.T) {
	c := newCutter(t, true)
	v := c.start(true)
	c.greet(v)
	mr, err := c.d.Alloc(100_000, device.LocalWrite)
	require.NoError(t, err)
	require.True(t, cut(filepath.Join(c.dir, regionName(mr.RKey()))))
	theirs := (*c.d.(*attachment).mappings.byKey.Load())[v.key]
	for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
		wr := v.rdma(kind)
		wr.AH, wr.QKey, wr.Payload = c.ah, testQKey, mr.Bytes()
		require.Panics(t, func() { _ = c.q.PostSend(&wr) })
		require.Zero(t, theirs.control().leases.Load())
		require.EqualValues(t, 1, theirs.users.n.Load(), "the table's")
	}
	c.greet(v)
	require.NoError(t, mr.Close())
	v.end(t)
}
