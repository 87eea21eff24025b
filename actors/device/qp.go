package device

import "time"

// QPType is the transport of a queue pair.
type QPType uint8

// QPConfig says what queue pair to open. Zero depths mean the device's default.
type QPConfig struct {
	SQDepth, RQDepth int
	QPN              uint16   // 0: any free one; EFA chooses itself and refuses others
	QPNs             []uint16 // of several devices: the number on each, instead of QPN
	QKey             uint32   // also the connid of the endpoint (§1.4); bit 31 is the kernel's on EFA
	RNRRetry         uint8    // device resends before it reports RNR; 7: for ever

	// Silence is for how long the other side of a request may be silent before a device that
	// keeps connections ends it; 0: as the device has it.
	Silence time.Duration

	// Type is the transport; UD takes Info.Datagram.
	Type QPType

	// Notify is called from any goroutine when something may have become
	// ready after Arm, by drivers that run inside the process. Others make
	// one of FDs readable.
	Notify func()

	// Place, if there is one, says where the payload of a packet belongs. A device that reads packets from a
	// stream may ask, see OpPlaced.
	Place Placer

	// Resent, if there is one, is called for each request that a software device sends again by itself; cards
	// don't say it. The request is the device's, during the call.
	Resent func(*SendWR)
}

// QP is a queue pair and its completion queue. It belongs to one shard: no two
// of its methods run at once, except that Close may follow the owner's last call
// from another goroutine.
//
// The contract is EFA's: packets arrive at most once, whole, in any order. A
// completed send has reached a posted receive of the other side. With none
// posted there the send ends with StatusRNR after RNRRetry device resends. A
// receive from a sender with no address handle shows UnknownAH and the GID.
//
// Work goes in batches. Posts only queue: PostSend is called once for each request and
// Doorbell once for all of them, and a driver may hold everything back until then.
// PostRecv takes many slots at once. Poll gives as many completions as there is room
// for, so that the caller publishes what follows from them once for all.
//
// Like [Device], the interface is everything that any driver offers; [QPBase] refuses
// what a driver does not have.
type QP interface {
	QPN() uint16

	// Paths lists the ways of a queue pair over several devices, best first; always
	// the same slice. It is nil of one on a single device. QPN is the first path's.
	Paths() []Path
	// PathOf is the index in Paths of the path that an address handle belongs to; 0 if
	// Paths is nil.
	PathOf(ah AH) int

	// SetRNRRetry sets QPConfig.RNRRetry before the first PostSend, as verbs do it on
	// the way to RTS. Later it has no effect. ErrNotSupported: the device takes it in
	// QPConfig alone.
	SetRNRRetry(n uint8) error

	// CreateAH returns the address handle of gid; the same gid gives the same
	// handle, counted, until as many DestroyAH. A dead or unknown gid is no
	// error on a software device: sends to it end with a status. EFA refuses
	// what it knows to be out of reach, and more handles than it has.
	CreateAH(gid GID) (AH, error)
	DestroyAH(ah AH) error

	// PostSend queues one packet or RDMA request. ErrQueueFull, ErrTooLong,
	// ErrBadAH, ErrNotSupported (a kind of request, or more pieces, than Info has),
	// ErrUnsent and ErrClosed change nothing. Buffers stay the
	// device's until the completion, except that those of a WRSend are free at
	// once if Info.CopiesAtPost. A request that sets wr.Prompt has no completion
	// if wr.Over is true afterwards: then it has succeeded already.
	PostSend(wr *SendWR) error

	// RecvSlots is the number of receive buffers; the driver owns their
	// memory (each MTU bytes), numbered from 0. All begin unposted.
	RecvSlots() int
	// RecvBytes is slot's memory, always the same. It holds a packet from the completion that
	// names it until the slot is posted again. In shared memory the other
	// side could still change it: read a header field once, then check.
	RecvBytes(slot int) []byte
	// PostRecv gives slots (back) to the device.
	PostRecv(slots []int32)

	// Lend makes the bytes of mem, which lie in a region that this side knows as lkey on a
	// path, readable by RDMA of others, until Return: a window with a key of its own.
	// Requests name the bytes by the region's addresses. What the region allows to others
	// makes no difference and stays as it is. The path is an index of Paths; 0 if that is
	// nil. ErrNotSupported without Info.Windows; ErrBadKey: mem does not lie in the region,
	// or that is not [MR.Remote]; ErrNoMemory: there are too many windows.
	Lend(path uint8, lkey uint32, mem []byte) (rkey uint64, err error)
	// Return ends what Lend began: requests fail as if the key had never been given out.
	// It may follow Close.
	Return(path uint8, rkey uint64)

	// LendPlain is Lend for memory that is in no region, or in one that is not [MR.Remote], and
	// for one queue pair. Requests call its first byte addr. The caller keeps it alive until
	// Return; a read that is in progress then is discarded. ErrNotSupported without Info.Plain.
	LendPlain(ah AH, qpn uint16, mem []byte) (rkey, addr uint64, err error)
	// Relend has what LendPlain lent read from mem, which holds the same bytes, from now on. A
	// read of the former memory that is in progress is done again.
	Relend(path uint8, rkey uint64, mem []byte) error

	// Pulse asks the process behind a queue pair for a sign of life, and is a number that has changed since
	// the last call if there was one: a process that is stopped gives none. False: without Info.Pulse, or
	// nothing was sent there lately.
	Pulse(ah AH, qpn uint16) (uint32, bool)

	// HoldBack has the device refuse, with StatusRNR, packets of one queue pair that are
	// of messages (SendWR.Begins) from a turn on, or take them again. Other packets of
	// its come through, and those of earlier messages, so that what has begun can end.
	// Turns wrap. It lasts until it is undone; the device of shared memory forgets it
	// with the queue pair's process. ErrNotSupported without Info.HoldsBack, ErrBadAH.
	HoldBack(ah AH, qpn uint16, on bool, turn uint32) error
	// Shut has the device refuse, with StatusUnknownPeer, all that the queue pair with that Q_Key
	// sends here or asks for, for as long as it lives: another one that comes at its place is let
	// in. The device may forget it when nothing has come from there for a while. ErrNotSupported
	// without Info.HoldsBack, ErrBadAH.
	Shut(ah AH, qpn uint16, qkey uint32) error

	// Why is the reason, if the device knows it, for which sends by an address handle end with
	// StatusUnknownPeer, StatusMismatch or StatusQPInternal: an error of TLS for example. Else it
	// is nil.
	Why(ah AH) error

	// Doorbell makes what was posted since the last one go out.
	Doorbell()

	// Poll fills c with completions and returns how many. It allocates
	// nothing and does not block.
	Poll(c []Completion) int

	// Arm asks for a notification of the next completion. False: something
	// is ready already (or Poll must be called for another reason), so do not
	// sleep. An armed queue is disarmed by the next Poll.
	Arm() bool
	// FDs are descriptors that become readable when a queue pair that has just been armed has
	// work; nil for drivers that use QPConfig.Notify. Poll drains them. They may be others when it is armed again.
	FDs() []int
	// Close flushes: nothing completes afterwards and no memory is touched.
	Close() error
}

// Path is one of the ways that a queue pair over several devices has.
type Path struct {
	Info Info // of the device: its MaxRDMA and switch points hold on the path
	QPN  uint16
	// Carried is what went over the path so far. It changes with the calls of the queue pair, and
	// is read by its owner.
	Stats PathStats
}

// MaxPaths bounds the devices of one queue pair, see [QP.Paths].
const MaxPaths = 8

// PathStats counts what a queue pair has sent and received over one device, as
// [QueueCounters] do over all of them.
type PathStats struct {
	Sends, SendBytes   uint64 // packets posted, those sent again included
	Recvs, RecvBytes   uint64 // packets received
	Reads, ReadBytes   uint64 // RDMA reads posted
	Writes, WriteBytes uint64 // RDMA writes posted
}

// The transports of EFA.
const (
	// SRD is scalable reliable datagram: the contract of [QP].
	SRD QPType = iota
	// UD is unreliable datagram, for small packets that must not wait. It differs
	// from SRD so: a packet may be lost; a send is complete when the packet has left
	// and never ends with StatusRNR; there is no RDMA (ErrNotSupported).
	UD
)

// Posted counts a request that the device has taken.
func (c *PathStats) Posted(wr *SendWR) {
	n := uint64(wr.Len())
	switch wr.Kind {
	case WRSend:
		c.Sends++
		c.SendBytes += n
	case WRRead:
		c.Reads++
		c.ReadBytes += n
	case WRWrite:
		c.Writes++
		c.WriteBytes += n
	}
}

// Received counts a packet that was received.
func (c *PathStats) Received(n int) {
	c.Recvs++
	c.RecvBytes += uint64(n)
}

// QPBase is what a driver's queue pair embeds: it has one path, and refuses windows.
type QPBase struct{}

// Paths implements QP: there is one.
func (QPBase) Paths() []Path { return nil }

// PathOf implements QP.
func (QPBase) PathOf(AH) int { return 0 }

// SetRNRRetry implements QP by a refusal.
func (QPBase) SetRNRRetry(uint8) error { return ErrNotSupported }

// Lend implements QP by a refusal.
func (QPBase) Lend(uint8, uint32, []byte) (uint64, error) { return 0, ErrNotSupported }

// Return implements QP: there is nothing to return.
func (QPBase) Return(uint8, uint64) {}

// LendPlain implements QP by a refusal.
func (QPBase) LendPlain(AH, uint16, []byte) (uint64, uint64, error) { return 0, 0, ErrNotSupported }

// Relend implements QP by a refusal.
func (QPBase) Relend(uint8, uint64, []byte) error { return ErrNotSupported }

// Pulse implements QP: there is none.
func (QPBase) Pulse(AH, uint16) (uint32, bool) { return 0, false }

// HoldBack implements QP by a refusal.
func (QPBase) HoldBack(AH, uint16, bool, uint32) error { return ErrNotSupported }

// Shut implements QP by a refusal.
func (QPBase) Shut(AH, uint16, uint32) error { return ErrNotSupported }

// Why implements QP: the device knows no reasons.
func (QPBase) Why(AH) error { return nil }
