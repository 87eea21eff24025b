package tap

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// Record is one packet or RDMA request as it passed. Of RDMA the requester's side
// sees every request, the other side only writes with immediate.
type Record struct {
	Time clock.Time // of the Sink's clock
	Out  bool       // sent; otherwise received

	// Raw addresses of sender and receiver (§1.4). The connid of the own side
	// is its Q_Key, that of a receiver elsewhere the Q_Key used; that of a
	// sender elsewhere is not known to a device and 0.
	From, To wire.RawAddr

	// Packet is valid during the call; nil of RDMA.
	Packet []byte

	Kind   device.WR
	HasImm bool
	Imm    uint32
	Len    int    // bytes of the packet, or that RDMA moves
	RKey   uint32 // of requests of RDMA, as Remote
	Remote uint64
}

// Sink takes records; Packet gets those of RDMA, too. It is a clock as well, the
// one that stamps them. Both methods are called from every shard that owns a queue
// pair of the device.
type Sink interface {
	clock.Clock
	Packet(r Record)
}

// Wrap returns dev with a tap on the queue pairs that are opened from now on.
// Memory regions are dev's own. What the device or its queue pairs offer beside the
// methods that all have (device.Foreign, device.RNRSetter, several paths), the tapped
// ones do, too.
func Wrap(dev device.Device, sink Sink) device.Device {
	t := &tapped{Device: dev, sink: sink, info: dev.Info()}
	if f, ok := dev.(device.Foreign); ok {
		return struct {
			*tapped
			device.Foreign
		}{t, f}
	}
	if s, ok := dev.(several); ok {
		return struct {
			*tapped
			several
		}{t, s}
	}
	return t
}

// several is a device made of several: its queue pairs are device.Pathers.
type several interface{ Devices() []device.Device }

type tapped struct {
	device.Device
	sink Sink
	info device.Info
}

// OpenQP implements device.Device.
func (d *tapped) OpenQP(cfg device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	t := &tappedQP{
		QP: qp, sink: d.sink,
		self:    []wire.RawAddr{wire.MakeRawAddr(d.info.GID, qp.QPN(), cfg.QKey)},
		scratch: make([]byte, d.info.MTU),
	}
	s, sets := qp.(device.RNRSetter)
	p, parts := qp.(device.Pather)
	if t.pather = p; parts {
		t.self = t.self[:0]
		for _, x := range p.Paths() {
			t.self = append(t.self, wire.MakeRawAddr(x.Info.GID, x.QPN, cfg.QKey))
		}
	}
	switch {
	case sets && parts:
		return struct {
			*tappedQP
			device.RNRSetter
			device.Pather
		}{t, s, p}, nil
	case sets:
		return struct {
			*tappedQP
			device.RNRSetter
		}{t, s}, nil
	case parts:
		return struct {
			*tappedQP
			device.Pather
		}{t, p}, nil
	}
	return t, nil
}

// tappedQP is a queue pair whose owner's calls pass through the tap.
type tappedQP struct {
	device.QP
	sink    Sink
	self    []wire.RawAddr // by path
	pather  device.Pather  // nil: there is one path
	gids    []device.GID   // by address handle
	scratch []byte         // for a packet in two parts
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

// selfOn is our address on the path of a handle. Who has none came by the first, for
// all that is known.
func (q *tappedQP) selfOn(ah device.AH) wire.RawAddr {
	if q.pather == nil {
		return q.self[0]
	}
	return q.self[q.pather.PathOf(ah)]
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
	packet := wr.Header
	switch {
	case wr.Kind != device.WRSend:
		packet = nil // wr.Payload is the device's, for longer than this call
	case len(wr.Header) == 0:
		packet = wr.Payload
	case len(wr.Payload) > 0:
		n := copy(q.scratch, wr.Header)
		n += copy(q.scratch[n:], wr.Payload)
		packet = q.scratch[:n]
	}
	q.sink.Packet(Record{
		Time: q.sink.Now(), Out: true,
		From: q.selfOn(wr.AH), To: wire.MakeRawAddr(q.gid(wr.AH), wr.QPN, wr.QKey), Packet: packet,
		Kind: wr.Kind, HasImm: wr.HasImm, Imm: wr.Imm, Len: len(wr.Header) + len(wr.Payload),
		RKey: wr.RKey, Remote: wr.Remote,
	})
	return nil
}

// Poll implements device.QP.
func (q *tappedQP) Poll(c []device.Completion) int {
	n := q.QP.Poll(c)
	for i := range c[:n] {
		switch {
		case c[i].Status != device.StatusOK:
		case c[i].Op == device.OpRecv:
			q.received(&c[i])
		case c[i].Op == device.OpWritten:
			q.record(&c[i], device.WRWrite, nil)
		}
	}
	return n
}

func (q *tappedQP) received(c *device.Completion) {
	buf := q.RecvBytes(int(c.ID))
	if uint(c.Len) > uint(len(buf)) {
		return
	}
	q.record(c, device.WRSend, buf[:c.Len])
}

// record tells the sink of an arrival.
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
