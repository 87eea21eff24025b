package eratest

import (
	"encoding/binary"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/wire"
)

// An endpoint talks like a former release by two means: its settings have the habits of the
// release, and its device is one of these, which gives packets the bytes of that time.

// TalkLike has an endpoint with the knobs k talk like a release, one of era.All.
func TalkLike(k *settings.Knobs, release string) error {
	p, ok := era.ByName(release)
	if !ok {
		return fmt.Errorf("%q is no release at which something changed on the wire", release)
	}
	k.Habits, k.Device = p.Habits, deviceOf(&p)
	return nil
}

// Adopt has an endpoint that goes by f talk like a release.
func Adopt(f *settings.InForce, p *era.Profile) {
	f.Habits, f.Device = p.Habits, deviceOf(p)
}

func deviceOf(p *era.Profile) func(device.Device) device.Device {
	return func(dev device.Device) device.Device { return Device(dev, p) }
}

// Device returns dev for endpoints that talk like the release p. What they send is rewritten
// before dev takes it, and a HANDSHAKE that comes before they see it. Everything else is dev's
// own.
func Device(dev device.Device, p *era.Profile) device.Device {
	return &oldDevice{Device: dev, rewrite: rewrite{profile: *p, mtu: dev.Info().MTU}}
}

type oldDevice struct {
	device.Device
	rewrite rewrite
}

// OpenQP implements device.Device.
func (d *oldDevice) OpenQP(cfg device.QPConfig) (device.QP, error) {
	cfg.Place = nil // packets are rewritten as a whole
	qp, err := d.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	old := oldQP{QP: qp, rewrite: &d.rewrite}
	if paths, ok := qp.(pathChooser); ok {
		return &oldMultiQP{oldQP: old, pathChooser: paths}, nil
	}
	return &old, nil
}

// oldQP is a queue pair whose packets are rewritten.
type oldQP struct {
	device.QP
	rewrite *rewrite
}

// oldMultiQP is one over several devices.
type oldMultiQP struct {
	oldQP
	pathChooser
}

// pathChooser is what a queue pair over several devices has, and peers ask for.
type pathChooser interface {
	CreateAHOn(path uint8, gid device.GID) (device.AH, error)
}

// PostSend implements device.QP. The header is changed in its place, which is the device's until
// the completion. A packet that is posted again, after RNR, stays as it is.
func (q *oldQP) PostSend(wr *device.SendWR) error {
	if wr.Kind == device.WRSend && len(wr.Header) > 0 {
		wr.Header = q.rewrite.sent(wr.Header)
	}
	return q.QP.PostSend(wr)
}

// Poll implements device.QP.
func (q *oldQP) Poll(c []device.Completion) int {
	n := q.QP.Poll(c)
	for i := range c[:n] {
		if e := &c[i]; e.Op == device.OpRecv && e.Status == device.StatusOK {
			if b := q.RecvBytes(int(e.ID)); uint(e.Len) <= uint(len(b)) {
				q.rewrite.received(b[:e.Len])
			}
		}
	}
	return n
}

// rewrite changes the bytes of packets.
type rewrite struct {
	profile era.Profile
	mtu     int
}

// sent returns the header of a packet as the release sends it, in the same place.
func (r *rewrite) sent(header []byte) []byte {
	pkt, n, err := wire.Decode(header)
	if err != nil || !r.change(pkt) {
		return header
	}
	var scratch [2 * device.MaxHeader]byte
	return append(header[:0], append(pkt.Append(scratch[:0]), header[n:]...)...)
}

// change changes a packet and reports whether there was something to change.
func (r *rewrite) change(pkt wire.Packet) (changed bool) {
	p := &r.profile
	switch q := pkt.(type) {
	case *wire.Handshake:
		was := *q
		q.HasConnID = q.HasConnID && !p.NoConnID
		q.HasHostID = q.HasHostID && !p.NoHostID
		q.HasDeviceVersion = q.HasDeviceVersion && !p.NoDeviceVersion
		if p.P2P {
			q.HasP2P, q.P2PSupported = true, true
		}
		return *q != was
	case *wire.EOR:
		changed = p.ShortEOR && !q.Short
		q.Short = q.Short || p.ShortEOR
		return r.dropConnID(&q.HasConnID, &q.ConnID) || changed
	case *wire.CTS:
		return r.dropConnID(&q.HasConnID, &q.ConnID)
	case *wire.READRSP:
		return r.dropConnID(&q.HasConnID, &q.ConnID)
	case *wire.ATOMRSP:
		return r.dropConnID(&q.HasConnID, &q.ConnID)
	case *wire.Receipt:
		return r.dropConnID(&q.HasConnID, &q.ConnID)
	case *wire.ReadNACK:
		return r.dropConnID(&q.HasConnID, &q.ConnID)
	case *wire.PeerError:
		return r.dropConnID(&q.HasConnID, &q.ConnID)
	case *wire.LongCTSRTM:
		changed = r.askMore(&q.CreditRequest, q.MsgLength)
	case *wire.LongCTSRTW:
		changed = r.askMore(&q.CreditRequest, q.MsgLength)
	}
	if o := requestOptions(pkt); o != nil {
		was := *o
		o.ShortAddr = o.ShortAddr || o.HasRawAddr && p.ShortAddr
		if p.CQData32 && pkt.Type().IsTagged() || p.WriteData32 && pkt.Type().IsRTW() {
			o.CQData = uint64(uint32(o.CQData))
		}
		changed = changed || *o != was
	}
	return changed
}

// dropConnID: a packet without a connid is as long as one with it, but for CTSDATA. There the
// peer asks for it, which these releases do not understand.
func (r *rewrite) dropConnID(has *bool, id *uint32) (changed bool) {
	if !r.profile.NoConnID || !*has {
		return false
	}
	*has, *id = false, 0
	return true
}

// askMore has a request ask for as many packets as its message needs.
func (r *rewrite) askMore(credits *uint32, total uint64) (changed bool) {
	if !r.profile.CreditsAsked {
		return false
	}
	was := *credits
	room := uint64(r.mtu - wire.CTSDataLen) // whatever else is in its CTSDATA
	*credits = uint32(min(max(uint64(was), total/room+min(total%room, 1)), 1<<31))
	return *credits != was
}

// requestOptions returns a request's optional headers, nil of other packets.
func requestOptions(pkt wire.Packet) *wire.Options {
	switch q := pkt.(type) {
	case *wire.EagerRTM:
		return &q.Options
	case *wire.MediumRTM:
		return &q.Options
	case *wire.LongCTSRTM:
		return &q.Options
	case *wire.LongReadRTM:
		return &q.Options
	case *wire.RuntReadRTM:
		return &q.Options
	case *wire.EagerRTW:
		return &q.Options
	case *wire.LongCTSRTW:
		return &q.Options
	case *wire.LongReadRTW:
		return &q.Options
	case *wire.RTR:
		return &q.Options
	case *wire.RTA:
		return &q.Options
	default:
		return nil
	}
}

// received takes the features from a HANDSHAKE that the release does not know.
func (r *rewrite) received(packet []byte) {
	v, err := wire.Open(packet)
	if err != nil || v.Type != wire.TypeHandshake {
		return
	}
	var h wire.Handshake
	if _, err := h.Read(&v); err != nil {
		return
	}
	known := r.profile.Knows(h.Features)
	for i, word := range known {
		if word != h.Features[i] { // so it is there
			binary.LittleEndian.PutUint64(packet[wire.HandshakeLen+8*i:], word)
		}
	}
}
