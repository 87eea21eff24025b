package main

import (
	"encoding/binary"
	"net"

	"github.com/efactor/efactor/wire"
)

// What a foe sends that has a session.

// frame is a header; kinds as the device's package comment has them.
func frameOf(kind byte, length uint32, token uint64, more ...uint64) []byte {
	le := binary.LittleEndian
	b := make([]byte, 16, 40)
	b[0] = kind
	le.PutUint32(b[4:], length)
	le.PutUint64(b[8:], token)
	for _, v := range more {
		b = le.AppendUint64(b, v)
	}
	return b
}

// in begins a session, has f do something in it, and ends it.
func (d *dialer) in(f func(c net.Conn, to wire.RawAddr) error) error {
	c, to, err := d.inside()
	if err != nil {
		return err
	}
	_ = f(c, to) // how far one gets is the other side's choice
	if d.rng.IntN(4) == 0 {
		d.hold(c)
		return nil
	}
	return c.Close()
}

// frame sends an impossible one.
func (d *dialer) frame() error {
	return d.in(func(c net.Conn, to wire.RawAddr) error {
		qkey := uint64(to.ConnID())
		frames := [][]byte{
			d.noise(16 + d.rng.IntN(100)),
			frameOf(0, 0, 1), frameOf(byte(9+d.rng.IntN(200)), 0, 1),
			frameOf(1, tcpMTU+1+d.rng.Uint32N(1<<30), 1, qkey),
			frameOf(3, 1<<18+1+d.rng.Uint32N(1<<30), 1, qkey, 0, 1),
			frameOf(2, 0xffffffff, 1, qkey, 0, 1),
			frameOf(4, d.rng.Uint32N(1<<18), d.rng.Uint64()),
			frameOf(5, 0, d.rng.Uint64N(100)),
			frameOf(8, 0, 7), frameOf(7, 5, 7), frameOf(6, 0, 7),
		}
		_, err := c.Write(append(frames[d.rng.IntN(len(frames))], d.noise(d.rng.IntN(64))...))
		return err
	})
}

// halfFrame announces more than it sends.
func (d *dialer) halfFrame() error {
	return d.in(func(c net.Conn, to wire.RawAddr) error {
		b := append(frameOf(1, 4000, 1, uint64(to.ConnID())), d.noise(d.rng.IntN(4000))...)
		_, err := c.Write(b[:1+d.rng.IntN(len(b)-1)])
		d.hold(c)
		return err
	})
}

// keys guesses.
func (d *dialer) keys() error {
	return d.in(func(c net.Conn, to wire.RawAddr) error {
		var b []byte
		for i := range uint64(1 + d.rng.IntN(64)) {
			qkey := uint64(to.ConnID())
			if d.rng.IntN(4) == 0 {
				qkey = uint64(d.rng.Uint32())
			}
			b = append(b, frameOf(2+byte(d.rng.IntN(2)), 8, i+1, qkey, d.rng.Uint64(), d.rng.Uint64()>>2)...)
			if b[len(b)-40] == 3 {
				b = append(b, d.noise(8)...)
			}
		}
		_, err := c.Write(b)
		return err
	})
}

// packets sends right frames with packets of garbage, or nearly right ones.
func (d *dialer) packets() error {
	return d.in(func(c net.Conn, to wire.RawAddr) error {
		for i := range uint64(1 + d.rng.IntN(20)) {
			p := d.packet()
			if _, err := c.Write(append(frameOf(1, uint32(len(p)), i+1, uint64(to.ConnID())), p...)); err != nil {
				return err
			}
		}
		return nil
	})
}

// packet is noise with the base header of some packet.
func (f *foe) packet() []byte {
	p := f.noise(4 + f.rng.IntN(300))
	p[0], p[1] = byte(f.rng.IntN(160)), 4
	if f.rng.IntN(2) == 0 {
		binary.LittleEndian.PutUint16(p[2:], 1<<f.rng.IntN(16))
	}
	return p
}

// connids sends first messages of ever new peers.
func (d *dialer) connids() error {
	return d.in(func(c net.Conn, to wire.RawAddr) error {
		for i := range uint64(1 + d.rng.IntN(200)) {
			p := d.firstMessage(d.me.GID(), d.me.QPN())
			if _, err := c.Write(append(frameOf(1, uint32(len(p)), i+1, uint64(to.ConnID())), p...)); err != nil {
				return err
			}
		}
		return nil
	})
}

// firstMessage is a right one, with a tag that nobody receives, of one more endpoint at a
// place, or, now and then, at another place.
func (f *foe) firstMessage(gid [16]byte, qpn uint16) []byte {
	if f.rng.IntN(8) == 0 {
		copy(gid[:], f.noise(16))
	}
	m := wire.EagerRTM{MsgID: f.rng.Uint32N(3), Tagged: true, Tag: 1 << 40}
	m.Options = wire.Options{HasRawAddr: true, RawAddr: wire.MakeRawAddr(gid, qpn, f.rng.Uint32())}
	return append(m.Append(nil), f.noise(100)...)
}

// noReader asks and does not read.
func (d *dialer) noReader() error {
	return d.in(func(c net.Conn, _ wire.RawAddr) error {
		var b []byte
		for i := range uint64(500) {
			b = append(b, frameOf(6, 0, i)...)
		}
		_, err := c.Write(b)
		d.hold(c)
		return err
	})
}
