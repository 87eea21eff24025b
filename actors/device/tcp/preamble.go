package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// address names a queue pair.
type address struct {
	gid device.GID
	qpn uint16
}

// preambleLen is the length of a preamble, and of the reply to it.
const preambleLen = 80

// version is the version of the protocol over a connection.
const version = 3

var magic = [4]byte{'e', 'f', 't', 'c'}

// verdict is the reply to a preamble.
type verdict uint8

// Verdicts. Numbers never change.
const (
	taken         verdict = iota
	wrongVersion          // of the preamble
	wrongPlace            // the queue pair is not here
	wrongMTU              // the fabric has another
	wrongSession          // a lane of an unknown session, or one that the session has already
	wrongPeer             // the connection does not vouch for the address
	tooMany               // connections
	wrongUser             // of this host
	hostThrottled         // the host named wrong keys
	verdicts              // how many there are
)

var verdictText = [verdicts]string{
	"taken", "another version", "no such queue pair", "another mtu", "no such session", "not who it says to be",
	"too many connections", "a process of another user", "too many keys were guessed from there",
}

// status is the status of the dialer's requests.
func (v verdict) status() device.Status {
	switch v {
	case wrongVersion, wrongMTU:
		return device.StatusMismatch
	case wrongPeer, wrongUser, hostThrottled:
		return device.StatusUnknownPeer
	case tooMany:
		return device.StatusUnreachable
	default:
		return device.StatusBadDestQPN
	}
}

// preamble is the first message of a dialer on a connection, and the reply.
type preamble struct {
	reply   bool
	verdict verdict // of a reply
	lane    uint8
	lanes   uint8 // that the session will have beside lane 0
	mtu     uint32
	session uint64
	from    address
	to      address
	keyed   bool   // from says its Q_Key
	qkey    uint32 // of from
	meant   uint32 // the Q_Key that to has, if from is right
	// last is the latest session of to that from took, and alive whether it goes on; in
	// a reply, the session that from has dialed itself.
	last  uint64
	alive bool
}

// raw is the raw address of the preamble's sender.
func (p *preamble) raw() wire.RawAddr { return wire.MakeRawAddr(p.from.gid, p.from.qpn, p.qkey) }

// Flags of a preamble.
const (
	flagReply = 1 << iota
	flagAlive
	flagKeyed
)

var (
	errPreamble = errors.New("tcp: impossible preamble")
	errVersion  = errors.New("tcp: preamble of another version")
)

func (p *preamble) appendTo(b []byte) []byte {
	var h [preambleLen]byte
	copy(h[:], magic[:])
	binary.LittleEndian.PutUint16(h[4:], version)
	if p.reply {
		h[6] |= flagReply
	}
	if p.alive {
		h[6] |= flagAlive
	}
	if p.keyed {
		h[6] |= flagKeyed
	}
	h[7] = uint8(p.verdict)
	h[8], h[9] = p.lane, p.lanes
	binary.LittleEndian.PutUint32(h[12:], p.mtu)
	binary.LittleEndian.PutUint64(h[16:], p.session)
	copy(h[24:], p.from.gid[:])
	copy(h[40:], p.to.gid[:])
	binary.LittleEndian.PutUint16(h[56:], p.from.qpn)
	binary.LittleEndian.PutUint16(h[58:], p.to.qpn)
	binary.LittleEndian.PutUint32(h[60:], p.qkey)
	binary.LittleEndian.PutUint64(h[64:], p.last)
	binary.LittleEndian.PutUint32(h[72:], p.meant)
	return append(b, h[:]...)
}

// otherVersion names both versions.
func otherVersion(b []byte) error {
	return fmt.Errorf("%w: %d, this side speaks %d", errVersion, binary.LittleEndian.Uint16(b[4:]), version)
}

// parse reads a preamble, all of which is in b. errVersion: the rest cannot be
// interpreted.
func (p *preamble) parse(b []byte) error {
	switch {
	case len(b) != preambleLen || [4]byte(b) != magic:
		return fmt.Errorf("%w: no magic", errPreamble)
	case binary.LittleEndian.Uint16(b[4:]) != version:
		return otherVersion(b)
	}
	*p = preamble{
		reply: b[6]&flagReply != 0, alive: b[6]&flagAlive != 0, keyed: b[6]&flagKeyed != 0, verdict: verdict(b[7]), lane: b[8], lanes: b[9],
		mtu: binary.LittleEndian.Uint32(b[12:]), session: binary.LittleEndian.Uint64(b[16:]),
		from: address{device.GID(b[24:40]), binary.LittleEndian.Uint16(b[56:])},
		to:   address{device.GID(b[40:56]), binary.LittleEndian.Uint16(b[58:])},
		qkey: binary.LittleEndian.Uint32(b[60:]), last: binary.LittleEndian.Uint64(b[64:]),
		meant: binary.LittleEndian.Uint32(b[72:]),
	}
	switch {
	case b[6]&^(flagReply|flagAlive|flagKeyed) != 0 || b[10]|b[11] != 0 || binary.LittleEndian.Uint32(b[76:]) != 0:
		return fmt.Errorf("%w: unknown bits", errPreamble)
	case p.verdict >= verdicts || !p.reply && p.verdict != 0:
		return fmt.Errorf("%w: verdict %d", errPreamble, p.verdict)
	case p.lanes > maxLanes || p.lane > p.lanes:
		return fmt.Errorf("%w: lane %d of %d", errPreamble, p.lane, p.lanes)
	case !p.keyed && (p.qkey != 0 || !p.reply):
		return fmt.Errorf("%w: no Q_Key", errPreamble)
	case p.session == 0 || p.from.qpn == 0 || p.to.qpn == 0 || p.alive && p.last == 0:
		return fmt.Errorf("%w: no session or queue pair", errPreamble)
	}
	return nil
}

// greetingLen is the length of a greeting.
const greetingLen = 8

func appendGreeting(b []byte, v verdict) []byte {
	b = append(b, magic[:]...)
	b = binary.LittleEndian.AppendUint16(b, version)
	return append(b, uint8(v), 0)
}

func parseGreeting(b []byte) (verdict, error) {
	switch {
	case len(b) != greetingLen || [4]byte(b) != magic:
		return 0, fmt.Errorf("%w: no magic", errPreamble)
	case binary.LittleEndian.Uint16(b[4:]) != version:
		return wrongVersion, otherVersion(b)
	case b[6] >= uint8(verdicts) || b[7] != 0:
		return 0, fmt.Errorf("%w: greeting %x", errPreamble, b[6:])
	}
	return verdict(b[6]), nil
}

// greetingStatus is the status of the dialer's requests after a greeting that ends the
// connection.
func greetingStatus(v verdict, err error) device.Status {
	if errors.Is(err, errPreamble) {
		return device.StatusBadDestQPN
	}
	return v.status()
}
