package wire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
)

// codecCase is a packet and its bytes, computed by hand from the layouts that
// the type comments draw. What real libfabric sends is in golden_test.go.
type codecCase struct {
	name string
	pkt  Packet
	wire string // hexadecimal, # starts a comment

	// minLen is the shortest prefix that parses, if that isn't all of it.
	minLen int
}

func (c *codecCase) bytes(t testing.TB) []byte {
	t.Helper()
	var digits strings.Builder
	for l := range strings.Lines(c.wire) {
		l, _, _ = strings.Cut(l, "#")
		digits.WriteString(strings.Join(strings.Fields(l), ""))
	}
	b, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	return b
}

// shortest is the length of the shortest prefix of b that parses.
func (c *codecCase) shortest(b []byte) int {
	if c.minLen != 0 {
		return c.minLen
	}
	return len(b)
}

// codecCases is every case; the tables stand in the tests of the families.
var codecCases = func() (all []codecCase) {
	for _, part := range [][]codecCase{
		nonREQCases, handshakeCases, eagerCases, mediumCases, longCases, rtwCases, rtrCases, rtaCases,
	} {
		all = append(all, part...)
	}
	return all
}()

// testRaw is the raw address in the cases; testRawWire is its header.
var testRaw = MakeRawAddr([16]byte{0xfe, 0x80, 8: 0x02, 9: 0x11, 10: 0x22, 11: 0xff, 12: 0xfe, 13: 0x33, 14: 0x44, 15: 0x55}, 0x0a01, 0x69ba9fab)

const testRawWire = `
		24 00 00 00             # size=36
		fe 80 00 00 00 00 00 00 # raw_addr: gid, network order
		02 11 22 ff fe 33 44 55
		01 0a 00 00             # qpn, pad
		ab 9f ba 69             # connid
		00 00 00 00 00 00 00 00 # reserved
		00 00 00 00             # padding
`

var (
	testIOV0 = RMAIOV{Addr: 0x7f0011223344, Len: 0x1000, Key: 0x21}
	testIOV1 = RMAIOV{Addr: 0x7f0055667788, Len: 0x64, Key: 0xdeadbeef}
)

const (
	testIOV0Wire = `
		44 33 22 11 00 7f 00 00 # addr
		00 10 00 00 00 00 00 00 # len
		21 00 00 00 00 00 00 00 # key
`
	testIOV1Wire = `
		88 77 66 55 00 7f 00 00 # addr
		64 00 00 00 00 00 00 00 # len
		ef be ad de 00 00 00 00 # key
`
)

// parse opens a packet and reads it into p.
func parse(p Packet, b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// dirty makes a packet of p's struct with every field set, to see that Parse
// overwrites all or nothing.
func dirty(p Packet) Packet {
	q := reflect.New(reflect.TypeOf(p).Elem())
	fillOnes(q.Elem())
	return q.Interface().(Packet)
}

func fillOnes(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillOnes(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fillOnes(v.Index(i))
		}
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetUint(1)
	}
}

func eachCase(t *testing.T, f func(t *testing.T, c *codecCase, b []byte)) {
	for i := range codecCases {
		c := &codecCases[i]
		t.Run(c.pkt.Type().String()+"/"+c.name, func(t *testing.T) { f(t, c, c.bytes(t)) })
	}
}

// whole reports whether the packet is all of its datagram: its length says what it is.
func (c *codecCase) whole() bool { return c.pkt.Type() == TypePeerError }

func TestCasesCoverEveryType(t *testing.T) {
	covered := map[Type]bool{}
	for _, c := range codecCases {
		covered[c.pkt.Type()] = true
	}
	for i := range infos {
		require.Equal(t, Type(i).Known(), covered[Type(i)], "%v", Type(i))
	}
}

// TestCasesCoverEveryFlag: the packets that were written out by hand or captured, of each type, have each
// flag that decides about its layout, above all the one by which libfabric always says its connid. The
// other optional headers of messages are read alike in all of a family.
func TestCasesCoverEveryFlag(t *testing.T) {
	seen := map[Type]uint16{}
	for i := range codecCases {
		b := codecCases[i].bytes(t)
		seen[Type(b[0])] |= le.Uint16(b[2:])
	}
	goldenPackets(t, func(_ *golden.Scenario, p *golden.Packet) { seen[Type(p.Hex[0])] |= le.Uint16(p.Hex[2:]) })
	byFamily := map[family]uint16{}
	for typ, flags := range seen {
		byFamily[infos[typ].family] |= flags
	}
	for typ, flags := range seen {
		want := FlagConnID
		switch {
		case typ == TypeHandshake:
			want |= FlagHandshakeHostID | FlagHandshakeDeviceVersion | FlagHandshakeUserRecvQP | FlagHandshakeHMEMP2P
		case typ.IsRTM():
			flags |= byFamily[infos[typ].family]
			want |= FlagRawAddr | FlagCQData
		}
		assert.Equal(t, want, flags&want, "%v", typ)
	}
}

func TestAppend(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		require.Equal(t, b, c.pkt.Append(nil))
		require.LessOrEqual(t, len(b), MaxAppendLen)

		// Stale memory behind the slice's end must not shine through.
		buf := bytes.Repeat([]byte{0xee}, MaxAppendLen+3)
		require.Equal(t, append([]byte{0xee, 0xee, 0xee}, b...), c.pkt.Append(buf[:3]))
	})
}

func TestParse(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		for _, data := range []string{"", "x", "some application data"} {
			if c.whole() && data != "" {
				continue
			}
			got := dirty(c.pkt)
			n, err := parse(got, append(bytes.Clone(b), data...))
			require.NoError(t, err)
			require.Equal(t, len(b), n)
			require.Equal(t, c.pkt, got)
		}
	})
}

func TestParseTruncated(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		minLen := c.shortest(b)
		for i := range minLen {
			if c.whole() && peerErrorFits(i) {
				continue // another form
			}
			requireParseFails(t, c.pkt, b[:i:i], ErrShort)
		}
		for i := minLen; i < len(b); i++ {
			_, err := parse(dirty(c.pkt), b[:i:i])
			require.NoError(t, err, "%d bytes", i)
		}
	})
}

// requireParseFails checks the error and that Parse left the struct alone.
func requireParseFails(t *testing.T, like Packet, b []byte, cause error) {
	t.Helper()
	got, before := dirty(like), dirty(like)
	n, err := parse(got, b)
	require.ErrorIs(t, err, cause, "%d bytes", len(b))
	require.Zero(t, n)
	require.Equal(t, before, got)

	var pe *ParseError
	require.ErrorAs(t, err, &pe)
	require.NotEmpty(t, pe.Field())
	if len(b) >= HeaderLen {
		require.Equal(t, Type(b[0]), pe.Type)
	}
}

func TestParseForeignPacket(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		for typ := range 256 {
			b := append(bytes.Clone(b), make([]byte, MaxAppendLen)...)
			b[0] = byte(typ)
			if infos[typ].family == infos[c.pkt.Type()].family {
				continue
			}
			cause := ErrType
			if infos[typ].traits&traitReserved != 0 {
				cause = ErrNotSupported
			}
			requireParseFails(t, c.pkt, b, cause)
		}
		for _, version := range []byte{0, 3, 5, 255} {
			b := bytes.Clone(b)
			b[1] = version
			requireParseFails(t, c.pkt, b, ErrVersion)
		}
	})
}

// TestEveryByteCounts changes each byte of each packet: padding must not matter,
// and everything else must, the flags apart, of which some are ignored.
func TestEveryByteCounts(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		pads := padding(b)
		for i := range b {
			if i == 2 || i == 3 {
				continue
			}
			changed := bytes.Clone(b)
			changed[i] ^= 1
			got, n, err := Decode(changed)
			if pads[i] {
				require.NoError(t, err)
				require.Equal(t, c.pkt, got, "padding at %d", i)
				require.Equal(t, len(b), n)
			} else if err == nil {
				require.NotEqual(t, c.pkt, got, "byte at %d is ignored", i)
			}
		}
	})
}

// TestUnknownFlagsAreIgnored sets each flag that has no meaning for a packet.
func TestUnknownFlagsAreIgnored(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		known := FlagConnID
		switch typ := c.pkt.Type(); {
		case typ.IsREQ():
			known |= FlagRawAddr | FlagCQData
			if infos[typ].family == famLongCTSRTM {
				known |= FlagReadNACK
			}
		case typ == TypeCTS:
			known |= FlagCTSEmulatedRead
		case typ == TypeHandshake:
			known |= FlagHandshakeHostID | FlagHandshakeDeviceVersion | FlagHandshakeUserRecvQP | FlagHandshakeHMEMP2P
		}
		changed := bytes.Clone(b)
		le.PutUint16(changed[2:], le.Uint16(b[2:])|^known)
		got, n, err := Decode(changed)
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, c.pkt, got)
	})
}

func TestNoAllocations(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		buf := make([]byte, 0, MaxAppendLen)
		got := dirty(c.pkt)
		var n int
		var err error
		require.Zero(t, testing.AllocsPerRun(100, func() { buf = c.pkt.Append(buf[:0]) }), "Append")
		var v View
		read := func(b []byte) {
			if err = v.Open(b); err == nil {
				n, err = got.Read(&v)
			}
		}
		require.Zero(t, testing.AllocsPerRun(100, func() { read(b) }), "Read")
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		for _, short := range [][]byte{b[:3], b[:7], b[:c.shortest(b)-1]} {
			require.Zero(t, testing.AllocsPerRun(100, func() { read(short) }), "failing Read")
			require.Error(t, err)
		}
		require.Zero(t, testing.AllocsPerRun(100, func() { connIDOf(b) }), "Open")
	})
}

func TestDecode(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		data := "data"
		if c.whole() {
			data = ""
		}
		got, n, err := Decode(append(bytes.Clone(b), data...))
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, c.pkt, got)
	})
	_, _, err := Decode(nil)
	require.ErrorIs(t, err, ErrShort)
	_, _, err = Decode([]byte{byte(TypeCTS), Version, 0, 0})
	require.ErrorIs(t, err, ErrShort)
}

// padding marks the bytes of a well-formed packet whose content means nothing:
// libfabric leaves some uninitialised. It is written apart from the codec, from
// the layouts; golden_test.go uses it too.
func padding(b []byte) map[int]bool {
	pads := map[int]bool{}
	pad := func(at, n int) {
		for i := range n {
			pads[at+i] = true
		}
	}
	typ, flags := Type(b[0]), le.Uint16(b[2:])
	hasConnID := flags&FlagConnID != 0
	switch typ {
	case TypeCTS, TypeREADRSP:
		if !hasConnID {
			pad(4, 4)
		}
	case TypeATOMRSP:
		if !hasConnID {
			pad(4, 4)
		}
		pad(8, 4)
	case TypeEOR, TypeReadNACK, TypeReceipt:
		if !hasConnID && len(b) >= 16 {
			pad(12, 4)
		}
	case TypePeerError:
		if !hasConnID {
			pad(len(b)-4, 4)
		}
		if len(b) == PeerErrorLen28 {
			if le.Uint32(b[12:]) == 0 { // op_id_valid
				pad(8, 4)
			} else {
				pad(13, 3)
			}
		}
	case TypeCTSData:
		if hasConnID {
			pad(28, 4)
		}
	case TypeHandshake:
		at := 8 + 8*int(le.Uint32(b[4:])-3)
		if hasConnID {
			pad(at+4, 4)
			at += 8
		}
		if flags&FlagHandshakeHostID != 0 {
			at += 8
		}
		if flags&FlagHandshakeDeviceVersion != 0 {
			pad(at+4, 4)
			at += 8
		}
		if flags&FlagHandshakeUserRecvQP != 0 {
			at += 8
		}
		if flags&FlagHandshakeHMEMP2P != 0 {
			pad(at+1, 7)
		}
	case TypeWriteRTA:
		pad(20, 4)
	case TypeDCEagerMsgRTM, TypeDCEagerTagRTM, TypeDCMediumMsgRTM, TypeDCMediumTagRTM, TypeDCEagerRTW:
		pad(12, 4)
	default: // no padding
	}
	if typ.IsREQ() && flags&FlagRawAddr != 0 {
		at := int(infos[typ].headerLen)
		switch {
		case typ.IsRTA():
			at += RMAIOVLen * int(le.Uint32(b[8:]))
		case typ.IsRTW(), typ.IsRTR():
			at += RMAIOVLen * int(le.Uint32(b[4:]))
		}
		size := int(le.Uint32(b[at:]))
		pad(at+4+RawAddrLen, size-RawAddrLen)
	}
	return pads
}
