package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// The device's protocol, as its package comment has it.
const (
	preambleLen = 80
	greetingLen = 8
	tcpMTU      = 8760
)

// dialer attacks queue pairs over TCP.
type dialer struct {
	*foe
	ctx  context.Context
	held []net.Conn // say nothing more
	raws []wire.RawAddr
	me   wire.RawAddr // in the latest session
}

// mostHeld is how many connections a foe keeps open.
const mostHeld = 400

var errTurned = errors.New("turned away")

// tcpFoe is a foe of queue pairs that listen.
func tcpFoe(ctx context.Context, f *foe) ([]kind, func(), error) {
	d := &dialer{foe: f, ctx: ctx}
	for _, a := range f.At {
		if raw, ok := a.Raw("tcp"); ok {
			d.raws = append(d.raws, raw)
		}
	}
	kinds := []kind{
		{"silent", d.silent},
		{"silent", d.silent},
		{"half preamble", d.half},
		{"garbage", d.garbage},
		{"http", d.http},
		{"tls", d.stranger},
		{"impostor", d.impostor},
		{"wrong place", d.elsewhere},
	}
	if f.Device != "tls" { // there a preamble is not reached
		kinds = append(kinds, kind{"frame", d.frame}, kind{"frame", d.frame}, kind{"half frame", d.halfFrame},
			kind{"keys", d.keys}, kind{"packets", d.packets}, kind{"connids", d.connids}, kind{"no reader", d.noReader})
	}
	return kinds, func() {
		for _, c := range d.held {
			_ = c.Close()
		}
	}, nil
}

func (d *dialer) target() wire.RawAddr { return d.raws[d.rng.IntN(len(d.raws))] }

// dial connects to to from a host of its own: guesses are counted by host.
func (d *dialer) dial(to wire.RawAddr) (net.Conn, netip.Addr, error) {
	host := netip.AddrFrom4([4]byte{127, byte(1 + d.rng.IntN(250)), byte(d.rng.IntN(256)), byte(1 + d.rng.IntN(250))})
	return d.dialFrom(to, host)
}

func (d *dialer) dialFrom(to wire.RawAddr, host netip.Addr) (net.Conn, netip.Addr, error) {
	gid := to.GID()
	at := netip.AddrPortFrom(netip.AddrFrom16(gid).Unmap(), to.QPN())
	dial := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(host, 0)), Timeout: time.Second}
	c, err := dial.DialContext(d.ctx, "tcp4", at.String())
	if err == nil {
		_ = c.SetDeadline(clock.Deadline(500 * time.Millisecond))
	}
	return c, host, err
}

// hold keeps a connection open.
func (d *dialer) hold(c net.Conn) {
	d.held = append(d.held, c)
	if len(d.held) > mostHeld {
		i := d.rng.IntN(len(d.held))
		_ = d.held[i].Close()
		d.held[i] = d.held[len(d.held)-1]
		d.held = d.held[:len(d.held)-1]
	}
}

// say connects, writes, and reads what comes back, or not.
func (d *dialer) say(b []byte, hold bool) error {
	c, _, err := d.dial(d.target())
	if err != nil {
		return err
	}
	_, err = c.Write(b)
	if hold && err == nil {
		d.hold(c)
		return nil
	}
	return errors.Join(err, c.Close())
}

func (d *dialer) silent() error  { return d.say(nil, true) }
func (d *dialer) garbage() error { return d.say(d.noise(1+d.rng.IntN(4000)), d.rng.IntN(4) == 0) }
func (d *dialer) http() error {
	return d.say(append([]byte("GET / HTTP/1.1\r\nHost: efactor\r\n\r\n"), make([]byte, d.rng.IntN(200))...), false)
}

// half says a part of a right preamble, and no more.
func (d *dialer) half() error {
	to := d.target()
	c, host, err := d.dial(to)
	if err != nil {
		return err
	}
	_, err = c.Write(d.preamble(to, host)[:1+d.rng.IntN(preambleLen-1)])
	d.hold(c)
	return err
}

// stranger speaks TLS without a certificate of the job's.
func (d *dialer) stranger() error {
	c, _, err := d.dial(d.target())
	if err != nil {
		return err
	}
	if d.rng.IntN(2) == 0 { // and stops after its first flight
		t := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		_ = c.SetDeadline(clock.Deadline(time.Millisecond))
		_ = t.Handshake()
		d.hold(c)
		return nil
	}
	defer c.Close()
	t := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	if t.Handshake() == nil {
		_, err := t.Read(make([]byte, 1))
		if err == nil {
			return errTurned // it was let in
		}
	}
	return nil
}

// preamble is a right one, from host and a port that nobody need have.
func (d *dialer) preamble(to wire.RawAddr, host netip.Addr) []byte {
	le := binary.LittleEndian
	b := make([]byte, preambleLen)
	copy(b, "eftc")
	le.PutUint16(b[4:], 3)
	b[6] = 4 // our Q_Key is there
	b[9] = byte(d.rng.IntN(2))
	le.PutUint32(b[12:], tcpMTU)
	le.PutUint64(b[16:], 1+d.rng.Uint64()>>1)
	from, gid := host.As16(), to.GID()
	copy(b[24:], from[:])
	copy(b[40:], gid[:])
	le.PutUint16(b[56:], uint16(1+d.rng.IntN(65535)))
	le.PutUint16(b[58:], to.QPN())
	le.PutUint32(b[60:], d.rng.Uint32())
	le.PutUint32(b[72:], to.ConnID())
	return b
}

// impostor claims the address of a legitimate peer.
func (d *dialer) impostor() error {
	to, as := d.target(), d.target()
	c, _, err := d.dial(to)
	if err != nil {
		return err
	}
	b := d.preamble(to, netip.AddrFrom16(as.GID()))
	binary.LittleEndian.PutUint16(b[56:], as.QPN())
	_, err = c.Write(b)
	return errors.Join(err, c.Close())
}

// elsewhere says a preamble with one thing wrong.
func (d *dialer) elsewhere() error {
	to := d.target()
	c, host, err := d.dial(to)
	if err != nil {
		return err
	}
	b := d.preamble(to, host)
	b[4+d.rng.IntN(len(b)-4)] ^= 1 << d.rng.IntN(8)
	_, err = c.Write(b)
	return errors.Join(err, c.Close())
}

// inside is a connection with a session.
func (d *dialer) inside() (net.Conn, wire.RawAddr, error) {
	to := d.target()
	c, host, err := d.dial(to)
	if err != nil {
		return nil, to, err
	}
	b := d.preamble(to, host)
	b[9] = 0
	d.me = wire.MakeRawAddr(host.As16(), binary.LittleEndian.Uint16(b[56:]), 0)
	_, err = c.Write(b)
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, greetingLen))
	}
	reply := make([]byte, preambleLen)
	if err == nil {
		_, err = io.ReadFull(c, reply)
	}
	if err == nil && reply[7] != 0 {
		err = errTurned
	}
	if err != nil {
		_ = c.Close()
		return nil, to, err
	}
	return c, to, nil
}
