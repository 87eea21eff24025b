package tap

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// Record is one packet as it passed.
type Record struct {
	Time clock.Time // of the Sink's clock
	Out  bool       // sent; otherwise received

	// Raw addresses of sender and receiver (§1.4). The connid of the own side
	// is its Q_Key, that of a receiver elsewhere the Q_Key used; that of a
	// sender elsewhere is not known to a device and 0.
	From, To wire.RawAddr

	// Packet is valid during the call.
	Packet []byte
}

// Sink takes records. It is a clock as well, the one that stamps them. Both
// methods are called from every shard that owns a queue pair of the device.
type Sink interface {
	clock.Clock
	Packet(r Record)
}

// Wrap returns dev with a tap on the queue pairs that are opened from now on.
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
	qp, err := d.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	return &tappedQP{
		QP: qp, sink: d.sink,
		self:    wire.MakeRawAddr(d.info.GID, qp.QPN(), cfg.QKey),
		scratch: make([]byte, d.info.MTU),
	}, nil
}

// tappedQP is a queue pair whose owner's calls pass through the tap.
type tappedQP struct {
	device.QP
	sink    Sink
	self    wire.RawAddr
	gids    []device.GID // by address handle
	scratch []byte       // for a packet in two parts
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
	case len(wr.Header) == 0:
		packet = wr.Payload
	case len(wr.Payload) > 0:
		n := copy(q.scratch, wr.Header)
		n += copy(q.scratch[n:], wr.Payload)
		packet = q.scratch[:n]
	}
	q.sink.Packet(Record{
		Time: q.sink.Now(), Out: true,
		From: q.self, To: wire.MakeRawAddr(q.gid(wr.AH), wr.QPN, wr.QKey), Packet: packet,
	})
	return nil
}

// Poll implements device.QP.
func (q *tappedQP) Poll(c []device.Completion) int {
	n := q.QP.Poll(c)
	for i := range c[:n] {
		if c[i].Op == device.OpRecv && c[i].Status == device.StatusOK {
			q.received(&c[i])
		}
	}
	return n
}

func (q *tappedQP) received(c *device.Completion) {
	buf := q.RecvBytes(int(c.ID))
	if uint(c.Len) > uint(len(buf)) {
		return
	}
	gid := c.SrcGID
	if c.AH != device.UnknownAH {
		gid = q.gid(c.AH)
	}
	q.sink.Packet(Record{
		Time: q.sink.Now(),
		From: wire.MakeRawAddr(gid, c.SrcQPN, 0), To: q.self, Packet: buf[:c.Len],
	})
}
