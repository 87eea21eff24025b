package ope

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// TestLists: whatever the pieces are, a request gives their bytes in their order, and tells
// what lies in them; its lists are taken back once.
func TestLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 9), 1, 20).Draw(t, "pieces")
		req := Request{Kind: KindSend, Flags: HasIOV}
		l := req.GetIOV()
		for _, p := range pieces {
			require.True(t, l.AddLocal(p))
		}
		all := slices.Concat(pieces...)
		require.Equal(t, len(all), req.Len())
		b := make([]byte, req.Len())
		require.Equal(t, len(all), req.Gather(b))
		require.True(t, bytes.Equal(all, b))
		for _, p := range pieces {
			require.Equal(t, len(p) > 0, req.Touches(p))
		}
		require.False(t, req.Touches(b))
		req.PutIOV()
		require.Nil(t, req.More)
		require.Zero(t, req.Len())
		req.PutIOV()
	})
}

// TestListsOverflow: lengths that an int cannot add up are refused, and change nothing.
func TestListsOverflow(t *testing.T) {
	const full = math.MaxInt - 3
	l := More{Total: full}
	b := make([]byte, 4)
	require.False(t, l.AddLocal(b))
	require.EqualValues(t, full, l.Total)
	require.Empty(t, l.Local)
	require.True(t, l.AddLocal(b[:3]))
	require.False(t, l.AddLocal(b[:1]))
	require.EqualValues(t, math.MaxInt, l.Total)
}

// threePieces is a request whose memory is "abc", "defgh" and "ij", and whose target lies in pieces
// of 4 and 6 bytes.
func threePieces() *Request {
	r := &Request{Kind: KindWrite, Flags: HasIOV}
	l := r.GetIOV()
	for _, p := range []string{"abc", "defgh", "ij"} {
		l.AddLocal([]byte(p))
	}
	l.Remote = []wire.RMAIOV{{Addr: 1000, Len: 4, Key: 1}, {Addr: 2000, Len: 6, Key: 2}}
	return r
}

// TestIOVAt finds offsets in the pieces of both sides. The searches go on where the last one
// ended, so the offsets come in several orders.
func TestIOVAt(t *testing.T) {
	local := []string{"abc", "bc", "c", "defgh", "efgh", "fgh", "gh", "h", "ij", "j", ""}
	remote := []wire.RMAIOV{
		{Addr: 1000, Len: 4, Key: 1},
		{Addr: 1001, Len: 3, Key: 1},
		{Addr: 1002, Len: 2, Key: 1},
		{Addr: 1003, Len: 1, Key: 1},
		{Addr: 2000, Len: 6, Key: 2},
		{Addr: 2001, Len: 5, Key: 2},
		{Addr: 2002, Len: 4, Key: 2},
		{Addr: 2003, Len: 3, Key: 2},
		{Addr: 2004, Len: 2, Key: 2},
		{Addr: 2005, Len: 1, Key: 2},
		{},
	}
	for name, offs := range map[string][]uint64{
		"up":      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		"down":    {10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
		"to and":  {0, 9, 1, 8, 2, 7, 3, 6, 4, 5, 10},
		"the end": {10, 10, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := threePieces()
			for _, off := range offs {
				require.Equal(t, local[off], string(r.from(off)), "own memory from %d on", off)
				require.Equal(t, remote[off], r.at(off, 10), "the peer's from %d on", off)
			}
		})
	}
	one := &Request{Buf: []byte("abc"), Addr: 500, Key: 7}
	require.Equal(t, "c", string(one.from(2)))
	require.Equal(t, wire.RMAIOV{Addr: 502, Len: 1, Key: 7}, one.at(2, 3))
}

// TestCuts counts the RDMA requests of a write: one ends wherever a piece does on either side, or
// where the device's limit is.
func TestCuts(t *testing.T) {
	for _, c := range []struct {
		most uint64
		n    int
		last uint64
	}{
		{1, 10, 9},
		{2, 6, 8}, // ab c d ef gh ij
		{3, 5, 8}, // abc d efg h ij
		{4, 4, 8}, // abc d efgh ij
		{100, 4, 8},
	} {
		n, last := threePieces().cuts(c.most)
		require.Equal(t, c.n, n, "requests of at most %d bytes", c.most)
		require.Equal(t, c.last, last, "requests of at most %d bytes", c.most)
	}
	n, last := (&Request{Buf: make([]byte, 10)}).cuts(4)
	require.Equal(t, 3, n)
	require.EqualValues(t, 8, last)
	n, _ = (&Request{}).cuts(4)
	require.Zero(t, n, "a write of nothing")
}

// TestRMAIOV: a packet names all pieces of the peer's memory, or the one of a plain request.
func TestRMAIOV(t *testing.T) {
	r := threePieces()
	iov, n := r.rmaIOV(10)
	require.Equal(t, r.More.Remote, iov[:n])
	require.Equal(t, 2, r.remotes())
	require.True(t, r.hasIOVs())

	r = &Request{Addr: 5, Key: 6}
	iov, n = r.rmaIOV(10)
	require.Equal(t, []wire.RMAIOV{{Addr: 5, Len: 10, Key: 6}}, iov[:n])
	require.Equal(t, 1, r.remotes())
	require.False(t, r.hasIOVs())
	r.More = &More{}
	require.Equal(t, 1, r.remotes())
	require.False(t, r.hasIOVs(), "lists that are empty")
	r.More.Remote = make([]wire.RMAIOV, 1)
	require.True(t, r.hasIOVs(), "a list for the peer's side alone")
}

// TestScatter copies data into the pieces from any offset on, and drops the rest.
func TestScatter(t *testing.T) {
	for _, c := range []struct {
		off        uint64
		data, want string
	}{
		{0, "", "abcdefghij"},
		{0, "XY", "XYcdefghij"},
		{2, "XY", "abXYefghij"},
		{3, "12345", "abc12345ij"},
		{0, "0123456789", "0123456789"},
		{7, "XYZ", "abcdefgXYZ"},
		{8, "too long", "abcdefghto"},
		{10, "beyond", "abcdefghij"},
	} {
		r := threePieces()
		r.scatter(c.off, []byte(c.data))
		b := make([]byte, 10)
		r.Gather(b)
		require.Equal(t, c.want, string(b), "%q at %d", c.data, c.off)
	}
}

// TestSliceIOVs finds a part of a read response's memory.
func TestSliceIOVs(t *testing.T) {
	from := [][]byte{[]byte("abc"), {}, []byte("defgh"), []byte("ij")}
	for _, c := range []struct {
		off, n uint64
		want   []string
	}{
		{0, 0, nil},
		{0, 3, []string{"abc"}},
		{1, 1, []string{"b"}},
		{2, 2, []string{"c", "d"}},
		{3, 5, []string{"defgh"}},
		{3, 6, []string{"defgh", "i"}},
		{7, 3, []string{"h", "ij"}},
		{0, 10, []string{"abc", "defgh", "ij"}},
		{9, 5, []string{"j"}}, // there is no more
	} {
		var to [wire.MaxIOV][]byte
		var got []string
		for _, p := range to[:sliceIOVs(&to, from, c.off, c.n)] {
			got = append(got, string(p))
		}
		require.Equal(t, c.want, got, "%d bytes at %d", c.n, c.off)
	}
}

// TestPack: the payload of a packet is the memory itself if it lies in one piece, else a copy.
func TestPack(t *testing.T) {
	for _, c := range []struct {
		off, n uint64
		want   string
		copied bool
	}{
		{0, 0, "", false},
		{0, 3, "abc", false},
		{4, 3, "efg", false},
		{2, 2, "cd", true},
		{0, 10, "abcdefghij", true},
		{7, 3, "hij", true},
	} {
		r := threePieces()
		var p device.Pke
		p.Fill(p.Header(), nil)
		r.pack(&p, c.off, c.n)
		require.Equal(t, c.want, string(p.Local()), "%d bytes at %d", c.n, c.off)
		if c.n > 0 {
			require.Equal(t, !c.copied, r.Touches(p.Local()), "%d bytes at %d", c.n, c.off)
		}
	}
}

// TestEndAtPiece cuts CTSDATA where a piece of memory ends, as libfabric 1.13 did.
func TestEndAtPiece(t *testing.T) {
	for _, c := range []struct{ off, n, want uint64 }{
		{0, 10, 3}, {0, 2, 2}, {2, 5, 1}, {3, 10, 5}, {7, 1, 1}, {7, 3, 1}, {8, 2, 2},
	} {
		tx := &Txe{q: threePieces()}
		tx.q.Kind = KindSend
		seg := Segment{Off: c.off, Len: c.n}
		tx.endAtPiece(&seg)
		require.Equal(t, Segment{Off: c.off, Len: c.want}, seg)

		rsp := &Txe{q: &Request{}, x: &txExt{nsrc: 3}, m: Tx{Proto: ReadResponse}}
		copy(rsp.x.src[:], tx.q.More.Local)
		seg = Segment{Off: c.off, Len: c.n}
		rsp.endAtPiece(&seg)
		require.Equal(t, Segment{Off: c.off, Len: c.want}, seg)
	}
	seg := Segment{Off: 1, Len: 5}
	(&Txe{q: &Request{Kind: KindSend, Buf: make([]byte, 10)}}).endAtPiece(&seg)
	require.Equal(t, Segment{Off: 1, Len: 5}, seg, "one buffer")
}
