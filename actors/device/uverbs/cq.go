//go:build linux

package uverbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/actors/device/uverbs/mmio"
)

// completionQueue is a completion queue: one ring that the device writes, or several. It
// is read by its phase bits, and only its doorbell is written.
type completionQueue struct {
	rings []ring
	turn  int // which ring the next poll begins with

	db       *uint32 // nil: the device has none
	consumed uint16  // in all
	told     uint16  // by the doorbell
	serial   uint8   // events that were read
}

// ring is a ring of completions.
type ring struct {
	mem   []byte
	mask  uint32
	head  uint32 // runs freely
	shift uint8  // of head: its lap
}

// entry is the memory of the entry at head.
func (r *ring) entry() []byte {
	at := int(r.head&r.mask) * abi.WideCQELen
	return r.mem[at : at+abi.WideCQELen : at+abi.WideCQELen]
}

// ready reports whether the device has written the entry at head. The rest of the entry
// may be read then.
func (r *ring) ready() bool {
	at := int(r.head&r.mask) * abi.WideCQELen
	w := abi.CQEWord(littleEndian(atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.mem[at])))))
	if w.Phase() != (r.head>>r.shift&1 == 0) {
		return false
	}
	mmio.ReadBarrier()
	return true
}

// littleEndian is w as it was stored in memory.
func littleEndian(w uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], w)
	return binary.LittleEndian.Uint32(b[:])
}

// any reports whether there is a completion.
func (q *completionQueue) any() bool {
	for i := range q.rings {
		if q.rings[i].ready() {
			return true
		}
	}
	return false
}

// next finds a ring with a completion. The rings take turns.
func (q *completionQueue) next() *ring {
	for range q.rings {
		r := &q.rings[q.turn]
		if q.turn++; q.turn == len(q.rings) {
			q.turn = 0
		}
		if r.ready() {
			return r
		}
	}
	return nil
}

// tell tells the device how many completions were read, and asks for an event if arm is
// set.
func (q *completionQueue) tell(arm bool) {
	if q.db == nil || q.told == q.consumed && !arm {
		return
	}
	q.told = q.consumed
	mmio.Store(q.db, abi.CQDoorbell{Consumed: q.consumed, CmdSN: q.serial, Arm: arm}.Word())
}

// createCQ makes a completion queue for n completions, with events in ch. It may be deeper.
func (c *context) createCQ(n int, ch, async eventFile, vector uint32) (handle uint32, deep int, resp abi.CreateCQResp, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := abi.CreateCQ{EntrySize: abi.WideCQELen, SubCQs: c.limits.SubCQs}
	if ch != noEvents {
		in.Flags |= abi.CQChannel
	}
	if c.can(abi.DeviceSGID) {
		in.Flags |= abi.CQSGID
	}
	c.cmd.begin(abi.ObjectCQ, abi.CQCreate)
	made := c.cmd.made(abi.CreateCQHandle)
	c.cmd.u32(abi.CreateCQEntries, uint32(n))
	c.cmd.u64(abi.CreateCQUserHandle, userHandle)
	if ch != noEvents {
		c.cmd.object(abi.CreateCQChannel, uint64(ch))
	}
	c.cmd.u32(abi.CreateCQVector, vector)
	depth := c.cmd.out(abi.CreateCQRespDepth, 4)
	if async != noEvents {
		c.cmd.object(abi.CreateCQAsync, uint64(async))
		c.cmd.optional()
	}
	c.cmd.in(abi.AttrUHWIn, in.Append(nil))
	out := c.cmd.out(abi.AttrUHWOut, abi.CreateCQRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return 0, 0, resp, fmt.Errorf("uverbs: completion queue of %d: %w", n, err)
	}
	_ = resp.Parse(out)
	handle, deep = uint32(made()), int(le.Uint32(depth))
	if deep < n || deep&(deep-1) != 0 {
		err = fmt.Errorf("%w: a completion queue of %d entries instead of %d", errLies, deep, n)
	}
	return handle, deep, resp, err
}

// userHandle is what the events of a queue say. A channel has one queue.
const userHandle = 1

func (c *context) destroyCQ(handle uint32) error {
	return c.destroy("completion queue", abi.ObjectCQ, abi.CQDestroy, handle, abi.DestroyCQRespLen)
}

// mapCQ maps the rings of n entries each, and the doorbell.
func (c *context) mapCQ(m *mappings, n int, resp *abi.CreateCQResp) (*completionQueue, error) {
	each := uint64(n) * abi.WideCQELen
	if need := each * uint64(c.limits.SubCQs); resp.Size < need {
		return nil, fmt.Errorf("%w: completions in %d bytes instead of %d", errLies, resp.Size, need)
	}
	mem, err := m.add("completion queue", resp.Key, resp.Size, unix.PROT_READ)
	if err != nil {
		return nil, err
	}
	q := &completionQueue{}
	for i := range uint64(c.limits.SubCQs) {
		q.rings = append(q.rings, ring{mem: mem[i*each:][:each:each], mask: uint32(n - 1), shift: logOf(n)})
	}
	if resp.CompMask&abi.CQHasDoorbell != 0 {
		q.db, err = m.doorbell("doorbell of completions", resp.DoorbellKey, resp.DoorbellOff)
	}
	return q, err
}

// eventFile is a descriptor that the kernel makes: a completion channel, or one for
// asynchronous events. Reading it never waits.
type eventFile int

// noEvents is the eventFile of a device without.
const noEvents eventFile = -1

// createChannel makes a completion channel.
func (c *context) createChannel() (eventFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd.write(abi.CmdCompChannel, make([]byte, abi.WriteCmdLen))
	out := c.cmd.out(abi.InvokeCoreOut, 4)
	if err := c.cmd.run(c.file); err != nil {
		return noEvents, fmt.Errorf("uverbs: completion channel: %w", err)
	}
	return newEventFile(uint64(le.Uint32(out)))
}

// createAsync makes a descriptor for asynchronous events.
func (c *context) createAsync() (eventFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd.begin(abi.ObjectAsyncEvent, abi.AsyncEventAlloc)
	fd := c.cmd.made(abi.AsyncEventFD)
	if err := c.cmd.run(c.file); err != nil {
		return noEvents, fmt.Errorf("uverbs: asynchronous events: %w", err)
	}
	return newEventFile(fd())
}

func newEventFile(fd uint64) (eventFile, error) {
	if fd > 1<<30 {
		return noEvents, fmt.Errorf("%w: descriptor %d", errLies, fd)
	}
	f := eventFile(fd)
	if err := unix.SetNonblock(int(f), true); err != nil {
		return noEvents, errors.Join(fmt.Errorf("uverbs: descriptor %d: %w", fd, err), f.close())
	}
	return f, nil
}

// read reads events of n bytes into b and returns how many; 0: there is none now.
func (f eventFile) read(b []byte, n int) (int, error) {
	for {
		got, err := unix.Read(int(f), b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		case err != nil:
			return 0, err
		case got == 0: // the other end of a pipe is closed: a kernel's descriptor has none
			return 0, unix.EPIPE
		}
		return got / n, nil
	}
}

func (f eventFile) close() error {
	if f == noEvents {
		return nil
	}
	return unix.Close(int(f))
}
