package ope

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/wire"
)

// The boundaries below are worked out by hand for MTU 8760 (§3.2, §3.3, §4): what a
// request can carry is the MTU less its mandatory header, 40 bytes of raw address or
// 4 of connid, 8 of CQ data, 24 for each rma_iov.
const testMTU = 8760

type choice struct {
	name  string
	facts Facts
	last  int   // the longest
	upTo  Proto // that goes by this
	then  Proto // and one byte more by that
}

func able(f Facts) Facts {
	f.MTU, f.Source, f.Local, f.Target, f.MaxRDMA = testMTU, true, true, true, 1<<30
	return f
}

func plain(f Facts) Facts {
	f.MTU, f.Target, f.MaxRDMA = testMTU, true, 1<<30
	return f
}

func TestChooseAtBoundaries(t *testing.T) {
	send, write, read := Facts{Kind: KindSend}, Facts{Kind: KindWrite}, Facts{Kind: KindRead}
	with := func(f Facts, edit func(*Facts)) Facts { edit(&f); return f }
	raw := func(f *Facts) { f.RawAddr = true }
	connID := func(f *Facts) { f.ConnID = true }
	data := func(f *Facts) { f.RawAddr, f.HasData = true, true }
	tagged := func(f *Facts) { f.ConnID, f.Tagged = true, true }
	dc := func(f *Facts) { f.ConnID, f.Deliver = true, true }
	dcTagged := func(f *Facts) { f.ConnID, f.Deliver, f.Tagged = true, true, true }
	canRead := func(f *Facts) { f.ConnID, f.CanRead = true, true }
	for _, c := range []choice{
		{"eager, raw address", plain(with(send, raw)), 8760 - 8 - 40, Eager, Medium},
		{"eager, connid", plain(with(send, connID)), 8760 - 8 - 4, Eager, Medium},
		{"eager, no optional header", plain(send), 8760 - 8, Eager, Medium},
		{"eager, CQ data", plain(with(send, data)), 8760 - 8 - 40 - 8, Eager, Medium},
		{"eager, tagged", plain(with(send, tagged)), 8760 - 16 - 4, Eager, Medium},
		{"DC eager", plain(with(send, dc)), 8760 - 16 - 4, DCEager, DCMedium},
		{"DC eager, tagged", plain(with(send, dcTagged)), 8760 - 24 - 4, DCEager, DCMedium},
		{"medium", plain(with(send, raw)), 65536, Medium, LongCTS},
		{"DC medium", plain(with(send, dc)), 65536, DCMedium, DCLongCTS},
		{"long-CTS", able(with(send, canRead)), 1<<20 - 1, LongCTS, LongRead},
		{"DC long-CTS", able(with(with(send, canRead), dc)), 1<<20 - 1, DCLongCTS, LongRead},
		{"long-CTS from memory that is not registered", plain(with(send, canRead)), 1<<20 - 1, LongCTS, LongCTS},
		{"long-CTS to a peer that cannot read", able(with(send, connID)), 1<<20 - 1, LongCTS, LongCTS},
		{"eager write", plain(with(write, connID)), 8760 - 8 - 24 - 4, EagerWrite, LongCTSWrite},
		{"DC eager write", plain(with(write, dc)), 8760 - 16 - 24 - 4, DCEagerWrite, DCLongCTSWrite},
		{"long-CTS write", able(with(write, canRead)), 65535, LongCTSWrite, LongReadWrite},
		{"DC long-CTS write", able(with(with(write, canRead), dc)), 65535, DCLongCTSWrite, LongReadWrite},
		{"short read", plain(with(read, connID)), 8760 - 24 - 1, ShortRead, LongCTSRead},
		{"direct read", able(with(read, canRead)), 1 << 30, DirectRead, DirectRead},
		{"read into memory that is not registered", with(able(with(read, canRead)), func(f *Facts) { f.Local = false }), 8760 - 24 - 1, ShortRead, LongCTSRead},
		{"read of memory that RDMA does not reach", with(able(with(read, canRead)), func(f *Facts) { f.Target = false }), 8760 - 24 - 1, ShortRead, LongCTSRead},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policyOf(settings.Settings{})
			for _, x := range []struct {
				n    int
				want Proto
			}{{c.last - 1, c.upTo}, {c.last, c.upTo}, {c.last + 1, c.then}} {
				f := c.facts
				f.Total = x.n
				s, err := f.Choose(&p)
				require.NoError(t, err)
				require.Equal(t, x.want.String(), s.Proto.String(), "%d bytes", x.n)
				require.EqualValues(t, x.n, s.Total)
			}
		})
	}
}

// TestChooseBySettings moves each threshold.
func TestChooseBySettings(t *testing.T) {
	for _, c := range []struct {
		policy settings.Settings
		facts  Facts
		want   string // at 999, 1000 and 1001 bytes
	}{
		{settings.Settings{MinRead: 1000}, Facts{Kind: KindSend, CanRead: true}, "eager long-read long-read"},
		{settings.Settings{MinRead: -1}, Facts{Kind: KindSend, CanRead: true}, "eager eager eager"},
		{settings.Settings{MinRead: 1000}, Facts{Kind: KindSend, CanRead: true, MediumFirst: true}, "eager eager eager"},
		{settings.Settings{MinRead: 1000, RuntSize: 64}, Facts{Kind: KindSend, CanRead: true, CanRunt: true, Runt: 64}, "eager runting read runting read"},
		{settings.Settings{MinRead: 1000, RuntSize: 64}, Facts{Kind: KindSend, CanRead: true, CanRunt: true, Runt: 7}, "eager long-read long-read"},
		{settings.Settings{MinRead: 1000}, Facts{Kind: KindSend, CanRead: true, CanRunt: true, Runt: 64, Deliver: true}, "DC eager long-read long-read"},
		{settings.Settings{MinReadWrite: 1000}, Facts{Kind: KindWrite, CanRead: true}, "eager write long-read write long-read write"},
		{settings.Settings{MinReadWrite: -1}, Facts{Kind: KindWrite, CanRead: true}, "eager write eager write eager write"},
		{settings.Settings{MinReadWrite: 1000}, Facts{Kind: KindWrite, CanRead: true, CanWrite: true}, "direct write direct write direct write"},
		{settings.Settings{}, Facts{Kind: KindWrite, CanWrite: true, HasData: true}, "eager write eager write eager write"},
		{settings.Settings{}, Facts{Kind: KindWrite, CanWrite: true, HasData: true, SameUnsolicited: true}, "direct write direct write direct write"},
	} {
		f, p := able(c.facts), policyOf(c.policy)
		got := ""
		for n := 999; n <= 1001; n++ {
			f.Total = n
			s, err := f.Choose(&p)
			require.NoError(t, err)
			got += " " + s.Proto.String()
		}
		require.Equal(t, c.want, got[1:], "%+v", c)
	}
	f, p := Facts{MTU: 1000, Kind: KindSend, Total: 2000}, policyOf(settings.Settings{MaxMedium: -1})
	s, err := f.Choose(&p)
	require.NoError(t, err)
	require.Equal(t, LongCTS, s.Proto, "no medium")
}

// TestChooseWindows: an RTR grants what it can take at once, RDMA is cut where the
// device ends.
func TestChooseWindows(t *testing.T) {
	p := policyOf(settings.Settings{Credits: 2})
	f := plain(Facts{Kind: KindRead, Total: 100000})
	s, err := f.Choose(&p)
	require.NoError(t, err)
	require.EqualValues(t, 2*(8760-32), s.Window)
	f.Total = 8736
	s, err = f.Choose(&p)
	require.NoError(t, err)
	require.Equal(t, LongCTSRead, s.Proto)
	require.EqualValues(t, 8736, s.Window, "never more than the message")

	// recv_length has 32 bits, and a grant in CTS must not wrap around either.
	huge := policyOf(settings.Settings{Credits: settings.MaxCredits})
	f.Total = 1 << 40
	s, err = f.Choose(&huge)
	require.NoError(t, err)
	require.EqualValues(t, math.MaxUint32, s.Window)
	require.Positive(t, huge.Credits*testMTU)

	for _, c := range []struct{ total, parts int }{{0, 1}, {1, 1}, {1000, 1}, {1001, 2}, {2000, 2}, {2001, 3}} {
		f := able(Facts{Kind: KindWrite, CanWrite: true, Total: c.total})
		f.MaxRDMA = 1000
		s, err := f.Choose(&p)
		require.NoError(t, err)
		require.Equal(t, c.parts, s.Parts, "%d bytes", c.total)
	}
	// Immediate data travels with one request only.
	f = able(Facts{Kind: KindWrite, CanWrite: true, HasData: true, SameUnsolicited: true, Total: 1001})
	f.MaxRDMA = 1000
	s, err = f.Choose(&p)
	require.NoError(t, err)
	require.Equal(t, EagerWrite, s.Proto)
}

func TestChooseAtomics(t *testing.T) {
	p := policyOf(settings.Settings{})
	for _, c := range []struct {
		form atomics.Form
		dc   bool
		want Proto
		most int
	}{
		{AtomicWrite, false, WriteAtomic, 8760 - 152},
		{AtomicWrite, true, DCWriteAtomic, 8760 - 152},
		{AtomicFetch, true, FetchAtomic, 8760 - 152},
		{AtomicCompare, false, CompareAtomic, (8760 - 152) / 2},
	} {
		f := plain(Facts{Kind: KindAtomic, Form: c.form, Deliver: c.dc, Total: c.most})
		s, err := f.Choose(&p)
		require.NoError(t, err, fmt.Sprint(c))
		require.Equal(t, c.want, s.Proto)
		f.Total++
		_, err = f.Choose(&p)
		require.ErrorIs(t, err, errno.ErrMsgSize)
	}
}

// TestChooseHeaderless: a peer with a user receive queue pair takes one datagram
// without a header, or nothing.
func TestChooseHeaderless(t *testing.T) {
	p := policyOf(settings.Settings{})
	f := plain(Facts{Kind: KindSend, UserQP: true, Total: testMTU})
	s, err := f.Choose(&p)
	require.NoError(t, err)
	require.Equal(t, Headerless, s.Proto)
	f.Total++
	_, err = f.Choose(&p)
	require.ErrorIs(t, err, errno.ErrMsgSize)
	f = plain(Facts{Kind: KindSend, UserQP: true, Tagged: true})
	_, err = f.Choose(&p)
	require.ErrorIs(t, err, errno.ErrNotSupported)
}

// policyOf is the policy that settings come to on a device like EFA's.
func policyOf(s settings.Settings) Policy {
	i := new(device.Info)
	return settings.New(s, i).On(i)
}

// TestChoosePieces: each piece that a header names leaves 24 bytes less for data, and many pieces
// more RDMA requests than their length makes.
func TestChoosePieces(t *testing.T) {
	const iov = 24
	for _, c := range []struct {
		name  string
		facts Facts
		last  int
		upTo  Proto
		then  Proto
	}{
		{"eager write to one piece", plain(Facts{Kind: KindWrite, Remotes: 1}), 8760 - 8 - iov, EagerWrite, LongCTSWrite},
		{"eager write to three", plain(Facts{Kind: KindWrite, Remotes: 3}), 8760 - 8 - 3*iov, EagerWrite, LongCTSWrite},
		{"DC eager write to three", plain(Facts{Kind: KindWrite, Remotes: 3, Deliver: true}), 8760 - 16 - 3*iov, DCEagerWrite, DCLongCTSWrite},
		{"long-read write of a piece each", able(Facts{Kind: KindWrite, CanRead: true, Pieces: 1, Remotes: 1}), 65535, LongCTSWrite, LongReadWrite},
		{"direct write of many", able(Facts{Kind: KindWrite, CanWrite: true, Pieces: 50, Remotes: 50, Cuts: 99}), 8760, DirectWrite, DirectWrite},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policyOf(settings.Settings{})
			for n, want := range map[int]Proto{c.last: c.upTo, c.last + 1: c.then} {
				f := c.facts
				f.Total = n
				s, err := f.Choose(&p)
				require.NoError(t, err)
				require.Equal(t, want.String(), s.Proto.String(), "%d bytes", n)
				if want == DirectWrite {
					require.Equal(t, 99, s.Parts)
				}
			}
		})
	}
}

// TestFits: a long-read write names the pieces of both sides in one header.
func TestFits(t *testing.T) {
	fits := 0
	for pieces := range wire.MaxIOV + 1 {
		for remotes := range wire.MaxIOV + 1 {
			f := able(Facts{Kind: KindWrite, CanRead: true, Total: 1 << 20, Pieces: pieces, Remotes: remotes})
			named := max(1, pieces) + max(1, remotes)
			want := wire.LongReadRTWLen+24*named+40+4+8 <= device.MaxHeader
			require.Equal(t, want, f.fits(), "%d pieces here, %d there", pieces, remotes)
			p := policyOf(settings.Settings{})
			s, err := f.Choose(&p)
			require.NoError(t, err)
			require.Equal(t, want, s.Proto == LongReadWrite, "%d pieces here, %d there", pieces, remotes)
			if want {
				fits++
			}
		}
	}
	require.NotZero(t, fits)
}

// TestRunts: what goes at once of a message that is read is a multiple of 8 bytes, and fits packets
// whose headers name the pieces of the message.
func TestRunts(t *testing.T) {
	for _, c := range []struct {
		name        string
		total, runt int
		pieces      int
		end         uint64
		parts       int
	}{
		{"a packet", 1 << 20, 4096, 1, 4096, 1},
		{"rounded down", 1 << 20, 4103, 1, 4096, 1},
		{"no more than the message", 1 << 20, 1 << 30, 1, 1 << 20, 122},
		{"packet full", 1 << 20, 8760 - 40 - 24, 1, 8696, 1},
		{"one packet more", 1 << 20, 8760 - 40 - 24 + 8, 1, 8704, 2},
		{"a second piece takes its room", 1 << 20, 8760 - 40 - 24, 2, 8696, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := able(Facts{Kind: KindSend, CanRead: true, CanRunt: true, Runt: c.runt, Total: c.total, Pieces: c.pieces})
			p := policyOf(settings.Settings{})
			s, err := f.Choose(&p)
			require.NoError(t, err)
			require.Equal(t, RuntRead, s.Proto)
			require.Equal(t, c.end, s.End)
			require.Equal(t, c.parts, s.Parts)
			require.EqualValues(t, c.total, s.Total)
		})
	}
}

// TestDataByOneWrite: remote CQ data goes with an RDMA write only if that is the only one.
func TestDataByOneWrite(t *testing.T) {
	p := policyOf(settings.Settings{})
	for cuts, want := range map[int]Proto{0: DirectWrite, 1: DirectWrite, 2: EagerWrite} {
		f := able(Facts{Kind: KindWrite, CanWrite: true, HasData: true, SameUnsolicited: true, Total: 100, Pieces: 2, Cuts: cuts})
		s, err := f.Choose(&p)
		require.NoError(t, err)
		require.Equal(t, want.String(), s.Proto.String(), "%d RDMA writes", cuts)
	}
}

// TestNoChoice: what is no operation with data has no subprotocol.
func TestNoChoice(t *testing.T) {
	p := policyOf(settings.Settings{})
	for _, k := range []Kind{KindNone, KindRecv, KindCancel, KindControl, KindPeek, KindTake, KindWritten} {
		f := able(Facts{Kind: k, Total: 10})
		_, err := f.Choose(&p)
		require.ErrorIs(t, err, errNoChoice)
	}
}
