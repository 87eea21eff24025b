package tap

import (
	"bytes"
	"sync"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// Record is one packet or RDMA request. The requester's side of RDMA sees every
// request, the other side only writes with immediate.
type Record struct {
	Time clock.Time // of the Sink's clock
	Out  bool       // sent; otherwise received

	// Raw addresses of sender and receiver (§1.4). The connid of the own side is
	// its Q_Key, that of a receiver elsewhere the Q_Key used; that of a sender
	// elsewhere is unknown to a device and 0.
	From, To wire.RawAddr

	// Packet is valid during the call; nil of RDMA.
	Packet []byte

	Again  bool // a packet that was sent before, and met RNR or a cut connection
	Own    bool // Again, by a software device itself: no request to it
	Kind   device.WR
	HasImm bool
	Imm    uint32
	Len    int    // bytes of the packet, or that RDMA moves
	RKey   uint64 // of requests of RDMA, as Remote
	Remote uint64
}

// Sink takes records; Packet gets those of RDMA, too. Its clock stamps them. Both
// methods are called from every shard that owns a queue pair of the device.
type Sink interface {
	clock.Clock
	Packet(r Record)
}

// Wrap returns dev with a tap on the queue pairs that are opened from now on.
// Everything else is dev's own.
func Wrap(dev device.Device, sink Sink) device.Device {
	return &tapped{Device: dev, sink: sink, info: dev.Info()}
}

type tapped struct {
	device.Device
	sink Sink
	info device.Info
}

// OpenQP implements device.Device.
func (d *tapped) OpenQP(cfg device.QPConfig) (device.QP, error) {
	t := &tappedQP{sink: d.sink, scratch: make([]byte, d.info.MTU)}
	cfg.Resent = func(wr *device.SendWR) { t.sent(wr, true) }
	cfg.Place = nil // it shows whole packets
	qp, err := d.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	t.QP, t.self = qp, []wire.RawAddr{wire.MakeRawAddr(d.info.GID, qp.QPN(), cfg.QKey)}
	if paths := qp.Paths(); paths != nil {
		t.self = t.self[:0]
		for _, x := range paths {
			t.self = append(t.self, wire.MakeRawAddr(x.Info.GID, x.QPN, cfg.QKey))
		}
	}
	return t, nil
}

// tappedQP is a queue pair whose calls pass through the tap.
type tappedQP struct {
	device.QP
	sink    Sink
	self    []wire.RawAddr // by path
	gids    []device.GID   // by address handle
	scratch []byte         // for a packet of several pieces
}

// CreateAH implements device.QP. The GID is kept after DestroyAH, for packets
// that are still to be polled.
func (q *tappedQP) CreateAH(gid device.GID) (device.AH, error) {
	ah, err := q.QP.CreateAH(gid)
	if err != nil {
		return ah, err
	}
	for int(ah) >= len(q.gids) {
		q.gids = append(q.gids, device.GID{})
	}
	q.gids[ah] = gid
	return ah, nil
}

// selfOn is our address on the path of a handle. Without a handle it is that on the
// first path.
func (q *tappedQP) selfOn(ah device.AH) wire.RawAddr {
	return q.self[q.PathOf(ah)]
}

func (q *tappedQP) gid(ah device.AH) device.GID {
	if int(ah) < len(q.gids) {
		return q.gids[ah]
	}
	return device.GID{}
}

// PostSend implements device.QP.
func (q *tappedQP) PostSend(wr *device.SendWR) error {
	if err := q.QP.PostSend(wr); err != nil {
		return err
	}
	q.sent(wr, false)
	return nil
}

// sent records a request, or, if it is the device's own, that the device carries out one once more.
func (q *tappedQP) sent(wr *device.SendWR, own bool) {
	packet := wr.Header
	switch {
	case wr.Kind != device.WRSend:
		packet = nil // wr.Payload is the device's, for longer than this call
	case len(wr.Header) == 0 && len(wr.More) == 0:
		packet = wr.Payload
	case len(wr.Payload) > 0 || len(wr.More) > 0:
		packet = q.scratch[:wr.Gather(q.scratch)]
	}
	q.sink.Packet(Record{
		Time: q.sink.Now(), Out: true,
		From: q.selfOn(wr.AH), To: wire.MakeRawAddr(q.gid(wr.AH), wr.QPN, wr.QKey), Packet: packet,
		Kind: wr.Kind, HasImm: wr.HasImm, Imm: wr.Imm, Len: wr.Len(),
		RKey: wr.RKey, Remote: wr.Remote, Again: wr.Again || own, Own: own,
	})
}

// Poll implements device.QP.
func (q *tappedQP) Poll(c []device.Completion) int {
	n := q.QP.Poll(c)
	for i := range c[:n] {
		e := &c[i]
		if e.Op != device.OpRecv && e.Op != device.OpWritten {
			continue
		}
		buf := q.RecvBytes(int(e.ID))
		switch {
		case e.Status != device.StatusOK:
		case e.Op == device.OpWritten:
			q.record(e, device.WRWrite, nil)
		case uint(e.Len) <= uint(len(buf)):
			q.record(e, device.WRSend, buf[:e.Len])
		}
	}
	return n
}

// record hands an arrival to the sink.
func (q *tappedQP) record(c *device.Completion, kind device.WR, packet []byte) {
	gid := c.SrcGID
	if c.AH != device.UnknownAH {
		gid = q.gid(c.AH)
	}
	q.sink.Packet(Record{
		Time: q.sink.Now(),
		From: wire.MakeRawAddr(gid, c.SrcQPN, 0), To: q.selfOn(c.AH), Packet: packet,
		Kind: kind, HasImm: c.HasImm, Imm: c.Imm, Len: c.Len,
	})
}

// Recorder is a Sink that keeps everything, for tests.
type Recorder struct {
	clock.Clock

	mu      sync.Mutex
	records []Record
}

// NewRecorder returns an empty recorder.
func NewRecorder(clk clock.Clock) *Recorder { return &Recorder{Clock: clk} }

// Packet implements Sink.
func (r *Recorder) Packet(rec Record) {
	rec.Packet = bytes.Clone(rec.Packet) // nil stays nil
	r.mu.Lock()
	r.records = append(r.records, rec)
	r.mu.Unlock()
}

// Take returns the records since the last call; their bytes are the caller's.
func (r *Recorder) Take() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	recs := r.records
	r.records = nil
	return recs
}
