package abi

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// structure is the interface of all control structures.
type structure interface {
	Append(b []byte) []byte
	Parse(b []byte) error
}

var (
	comment = regexp.MustCompile(`#.*`)
	notHex  = regexp.MustCompile(`\s+`)
)

// wire is the bytes of a golden: hexadecimal, with comments and "00*24" for runs.
func wire(t testing.TB, s string) []byte {
	t.Helper()
	s = comment.ReplaceAllString(s, "")
	s = regexp.MustCompile(`00\*(\d+)`).ReplaceAllStringFunc(s, func(run string) string {
		n := 0
		for _, d := range run[3:] {
			n = n*10 + int(d-'0')
		}
		return strings.Repeat("00", n)
	})
	b, err := hex.DecodeString(notHex.ReplaceAllString(s, ""))
	require.NoError(t, err)
	return b
}

// goldens are computed by hand from the layouts of the kernel's and the driver's
// headers (ib_user_verbs.h, rdma_user_ioctl_cmds.h, efa-abi.h): each field has a
// value of its own.
var goldens = []struct {
	name  string
	size  int
	value structure
	empty func() structure
	wire  string
}{
	{
		"header", HeaderLen,
		&Header{Length: 88, Object: ObjectDevice, Method: DeviceGetContext, Attrs: 4, Driver: DriverEFA},
		func() structure { return new(Header) },
		`5800 0000 0300 0400  00*8  11000000 00000000`,
	},
	{
		"header, reserved", HeaderLen, &Header{Reserved1: 0x0102030405060708, Reserved2: 0x0a0b0c0d},
		func() structure { return new(Header) },
		`00*8 0807060504030201 00000000 0d0c0b0a`,
	},
	{
		"attribute", AttrLen,
		&Attr{ID: AttrUHWOut, Len: 24, Flags: FlagMandatory, Selector: 0x0201, Data: 0x7fff12345678},
		func() structure { return new(Attr) },
		`0110 1800 0100 0102 78563412ff7f0000`,
	},
	{
		"context command", ContextCmdLen, &ContextCmd{Caps: CapTxBatch | CapMinSQ, Reserved: 9},
		func() structure { return new(ContextCmd) },
		`03000000 09000000`,
	},
	{
		"context response", ContextRespLen,
		&ContextResp{
			CompMask: 1, Udata: 3, SubCQs: 2, Inline: 32, MaxLLQ: 256 << 10, MaxTxBatch: 16, MinSQ: 8, InlineEx: 80, Reserved: 5,
		},
		func() structure { return new(ContextResp) },
		`01000000 03000000 0200 2000 00000400 1000 0800 5000 0500`,
	},
	{
		"device attributes", DeviceAttrLen,
		&DeviceAttr{
			FwVer: 1, NodeGUID: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, MaxMRSize: 2, PageSizeCap: 3, VendorID: VendorAmazon,
			PartID: 0xefa1, HwVer: 4, MaxQP: 5, MaxQPWR: 6, MaxSGE: 7, MaxSGERd: 8, MaxCQ: 9, MaxCQE: 10, MaxMR: 11,
			MaxPD: 12, MaxAH: 13, MaxPkeys: 14, Ports: 1, CompMask: 15, ResponseLength: 304,
		},
		func() structure { return new(DeviceAttr) },
		`0100000000000000 0102030405060708 00*8      # fw_ver, node_guid, sys_image_guid
		0200000000000000 0300000000000000            # max_mr_size, page_size_cap
		0f1d0000 a1ef0000 04000000                   # vendor, part, hw_ver
		05000000 06000000 00000000 07000000 08000000 # max_qp, max_qp_wr, flags, max_sge, max_sge_rd
		09000000 0a000000 0b000000 0c000000          # max_cq, max_cqe, max_mr, max_pd
		00*56                                        # atomics, multicast and so on
		0d000000 00*20                               # max_ah, and of shared receive queues
		0e00 00 01 00000000                          # pkeys, ack delay, ports
		0f000000 30010000 00*120                     # comp_mask, response_length`,
	},
	{
		"device response", DeviceRespLen,
		&DeviceResp{CompMask: 1, MaxSQ: 4096, MaxRQ: 32768, MaxSGESQ: 2, MaxSGERQ: 3, MaxRDMA: 1 << 30, Caps: 0xf},
		func() structure { return new(DeviceResp) },
		`01000000 00100000 00800000 0200 0300 00000040 0f000000`,
	},
	{
		"port", PortAttrLen,
		&PortAttr{
			MaxMsg: 8928, GIDTable: 1, PkeyTable: 2, State: PortActive, MaxMTU: 5, ActiveMTU: 6, LMC: 7, MaxVL: 8,
			Width: 9, Speed: 32, PhysState: PortLinkUp, LinkLayer: 10,
		},
		func() structure { return new(PortAttr) },
		`00000000 e0220000 00*8 01000000 0200 0000 0000 04 05 06 07 08 00 00 00 09 20 05 0a 00*10`,
	},
	{
		"gid", GIDEntryLen, &GIDEntry{GID: [16]byte{0: 0xfe, 1: 0x80, 15: 9}, Index: 1, Port: 2, Type: 3, NetDev: 4},
		func() structure { return new(GIDEntry) },
		`fe80 00*13 09 01000000 02000000 03000000 04000000`,
	},
	{
		"pd response", AllocPDRespLen, &AllocPDResp{CompMask: 1, Number: 0x0203, Reserved: 4},
		func() structure { return new(AllocPDResp) },
		`01000000 0302 0400`,
	},
	{
		"register", RegMRLen,
		&RegMR{Response: 1, Start: 0x55a079033040, Length: 4096, IOVA: 0x1040, PD: 2, Access: AccessLocalWrite | AccessRemoteRead},
		func() structure { return new(RegMR) },
		`0100000000000000 40300379a0550000 0010000000000000 4010000000000000 02000000 05000000`,
	},
	{
		"registered", RegMRRespLen, &RegMRResp{Handle: 1, LKey: 0x123456, RKey: 0xabcdef01},
		func() structure { return new(RegMRResp) },
		`01000000 56341200 01efcdab`,
	},
	{
		"asynchronous event", AsyncEventLen, &AsyncEvent{Element: 0x1122334455667788, Type: EventQPFatal, Reserved: 2},
		func() structure { return new(AsyncEvent) },
		`8877665544332211 01000000 02000000`,
	},
	{
		"create cq", CreateCQLen,
		&CreateCQ{CompMask: 1, EntrySize: 32, SubCQs: 2, Flags: CQChannel | CQSGID, Reserved: [5]byte{1, 2, 3, 4, 5}},
		func() structure { return new(CreateCQ) },
		`01000000 20000000 0200 03 0102030405`,
	},
	{
		"created cq", CreateCQRespLen,
		&CreateCQResp{
			CompMask: CQHasDoorbell, Reserved1: 1, Key: 0x1000, Size: 0x2000, Index: 3, Reserved2: 4, DoorbellOff: 0x110, DoorbellKey: 0x3000,
		},
		func() structure { return new(CreateCQResp) },
		`01000000 01000000 0010000000000000 0020000000000000 0300 0400 10010000 0030000000000000`,
	},
	{
		"destroyed cq", DestroyCQRespLen, &DestroyCQResp{CompEvents: 1, AsyncEvents: 2},
		func() structure { return new(DestroyCQResp) },
		`01000000 02000000`,
	},
	{
		"depths", QPCapLen, &QPCap{4096, 16384, 2, 1, 32},
		func() structure { return new(QPCap) },
		`00100000 00400000 02000000 01000000 20000000`,
	},
	{
		"create qp", CreateQPLen,
		&CreateQP{
			CompMask: 1, RQSize: 0x40000, SQSize: 0x40001, DriverType: 2, Flags: QPUnsolicitedWrite,
			ServiceLevel: ServiceLowLatency, Reserved: [5]byte{1, 2, 3, 4, 5},
		},
		func() structure { return new(CreateQP) },
		`01000000 00000400 01000400 02000000 0100 08 0102030405`,
	},
	{
		"created qp", CreateQPRespLen,
		&CreateQPResp{
			CompMask: 1, RQDoorbellOff: 2, SQDoorbellOff: 3, LLQOff: 4, RQKey: 5, RQSize: 6, RQDoorbellKey: 7,
			SQDoorbellKey: 8, LLQKey: 9, SendSubCQ: 10, RecvSubCQ: 11, Reserved: 12,
		},
		func() structure { return new(CreateQPResp) },
		`01000000 02000000 03000000 04000000 0500000000000000 0600000000000000 0700000000000000
		0800000000000000 0900000000000000 0a00 0b00 0c000000`,
	},
	{
		"modify qp", ModifyQPLen,
		&ModifyQP{
			Handle: 1, Mask: 0x10801, QKey: 0x11223344, SQPSN: 2, PkeyIndex: 3, State: QPRTS, CurState: QPRTR,
			SQDNotify: 4, Port: 5, RNRRetry: 6,
		},
		func() structure { return new(ModifyQP) },
		`00*64 01000000 01080100 44332211 00000000 02000000 00*8 0300 0000 03 02 0000 04 000000 05 0000 06 00*4`,
	},
	{
		"query qp", QueryQPLen, &QueryQP{Response: 1, Handle: 2, Mask: 3},
		func() structure { return new(QueryQP) },
		`0100000000000000 02000000 03000000`,
	},
	{
		"queried qp", QueryQPRespLen,
		&QueryQPResp{
			Caps: QPCap{1, 2, 3, 4, 5}, QKey: 6, SQPSN: 7, PkeyIndex: 8, State: QPRTS, CurState: QPError, Draining: 1,
			Port: 9, RNRRetry: 10, AllSignalled: 11,
		},
		func() structure { return new(QueryQPResp) },
		`00*64 01000000 02000000 03000000 04000000 05000000 06000000 00000000 07000000 00*8
		0800 0000 03 06 0000 01 000000 09 0000 0a 0000 0b 00*5`,
	},
	{
		"create ah", CreateAHLen,
		&CreateAH{
			Response: 1, UserHandle: 2, PD: 3, Reserved1: 4, GID: [16]byte{0: 0xfe, 15: 5}, FlowLabel: 6, SGIDIndex: 7,
			HopLimit: 8, TrafficClass: 9, ReservedGRH: 10, DLID: 11, SL: 12, SrcPath: 13, Rate: 14, IsGlobal: 1, Port: 2, Reserved2: 15,
		},
		func() structure { return new(CreateAH) },
		`0100000000000000 0200000000000000 03000000 04000000 fe 00*14 05 06000000 07 08 09 0a 0b00 0c 0d 0e 01 02 0f`,
	},
	{
		"created ah", CreateAHRespLen, &CreateAHResp{CompMask: 1, Number: 0x11, Reserved: 2},
		func() structure { return new(CreateAHResp) },
		`01000000 1100 0200`,
	},
}

func TestControl(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			want := wire(t, g.wire)
			require.Len(t, want, g.size)
			prefix := []byte("before")
			assert.Equal(t, hex.EncodeToString(append(prefix, want...)), hex.EncodeToString(g.value.Append(prefix)))

			got := g.empty()
			require.NoError(t, got.Parse(append(want, 0xff)))
			assert.Equal(t, g.value, got)
			for n := range want {
				require.ErrorIs(t, got.Parse(want[:n]), ErrShort)
				require.Equal(t, g.value, got, "left alone")
			}
			buf := make([]byte, 0, g.size)
			assert.Zero(t, testing.AllocsPerRun(10, func() { _ = got.Parse(want) }))
			assert.Zero(t, testing.AllocsPerRun(10, func() { got.Append(buf) }))
		})
	}
}

// Every byte of a structure that has a name counts: none is read for another.
func TestControlBytes(t *testing.T) {
	for _, g := range goldens {
		b := wire(t, g.wire)
		for i := range b {
			if b[i] == 0 {
				continue
			}
			changed := append([]byte(nil), b...)
			changed[i] ^= 0xff
			v := g.empty()
			require.NoError(t, v.Parse(changed))
			require.Equal(t, changed, v.Append(nil), "%s: byte %d", g.name, i)
		}
	}
}

func TestModifyOthers(t *testing.T) {
	m := ModifyQP{Handle: 1, Mask: 0x71, State: QPInit, Port: 1}
	b := m.Append(nil)
	require.NoError(t, m.Parse(b))
	assert.False(t, m.Others)
	for _, i := range []int{0, 63, 76, 84, 88, 94, 98, 101, 105, 108, 111} {
		c := append([]byte(nil), b...)
		c[i] = 1
		require.NoError(t, m.Parse(c))
		assert.True(t, m.Others, i)
	}
}

func TestQPStateString(t *testing.T) {
	assert.Equal(t, "RESET", QPReset.String())
	assert.Equal(t, "ERR", QPError.String())
	assert.Equal(t, "QPState(?)", QPState(7).String())
}

func TestParseAttrs(t *testing.T) {
	a, b := Attr{ID: 1, Len: 2}, Attr{ID: 3, Data: 4}
	raw := b.Append(a.Append(nil))
	got, err := ParseAttrs(nil, raw, 2)
	require.NoError(t, err)
	assert.Equal(t, []Attr{a, b}, got)
	for _, n := range []int{3, -1, 1 << 40} {
		_, err = ParseAttrs(nil, raw, n)
		assert.ErrorIs(t, err, ErrShort)
	}
	_, err = ParseAttrs(nil, raw[:31], 2)
	assert.ErrorIs(t, err, ErrShort)
	h := Header{Length: 56, Attrs: 2}
	assert.True(t, h.Whole())
	h.Attrs = 3
	assert.False(t, h.Whole())
}

// FuzzIoctl parses any bytes as a header with attributes.
func FuzzIoctl(f *testing.F) {
	for _, g := range goldens[:3] {
		f.Add(wire(f, g.wire))
	}
	h := Header{Length: 56, Attrs: 2, Driver: DriverEFA}
	a := Attr{ID: 1, Len: 2, Flags: 3, Selector: 4, Data: 5}
	f.Add(a.Append(a.Append(h.Append(nil))))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		if h.Parse(b) != nil {
			require.Less(t, len(b), HeaderLen)
			return
		}
		attrs, err := ParseAttrs(nil, b[HeaderLen:], int(h.Attrs))
		if err != nil {
			require.Less(t, len(b), HeaderLen+int(h.Attrs)*AttrLen)
			return
		}
		again := h.Append(nil)
		for i := range attrs {
			again = attrs[i].Append(again)
		}
		require.Equal(t, b[:len(again)], again)
	})
}
