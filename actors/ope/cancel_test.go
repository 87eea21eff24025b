package ope

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
)

// TestIncomplete: whether the other side lacks something of an operation that ends early.
func TestIncomplete(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Tx
		want bool
	}{
		{"its turn has not come", Tx{State: TxReq}, true},
		{"a packet is left", Tx{State: TxReq, Proto: Medium, left: 1, end: 10, Sent: 5}, true},
		{"CTS is to come", Tx{State: TxWait, Proto: LongCTS, end: 10, Sent: 5}, true},
		{"all is out", Tx{State: TxDrain, Proto: Medium, end: 10, Sent: 10}, false},
		{"RECEIPT is to come", Tx{State: TxAwait, Proto: DCMedium, answer: true, end: 10, Sent: 10}, false},
		{"the peer reads", Tx{State: TxAwait, Proto: LongRead, answer: true}, true},
		{"the peer has read", Tx{State: TxDrain, Proto: LongRead}, false},
	} {
		require.Equal(t, c.want, (&Txe{m: c.m}).incomplete(), c.name)
	}
}

// TestPending: an endpoint that closes waits for the packets by which operations of its peers end.
func TestPending(t *testing.T) {
	live, dead := new(peer.Link), &peer.Link{Err: peer.ErrDied}
	for _, c := range []struct {
		name string
		tx   Txe
		want bool
	}{
		{"RECEIPT", Txe{busy: true, link: live, m: Tx{Proto: ReceiptOnly}}, true},
		{"PEER_ERROR", Txe{busy: true, link: live, m: Tx{Proto: ErrorOnly}}, true},
		{"ATOMRSP", Txe{busy: true, link: live, m: Tx{Proto: AtomicResponse}}, true},
		{"an answer to a read", Txe{busy: true, link: live, m: Tx{Proto: ReadResponse}}, false},
		{"a message", Txe{busy: true, link: live, m: Tx{Proto: Eager}}, false},
		{"a peer that has failed", Txe{busy: true, link: dead, m: Tx{Proto: ReceiptOnly}}, false},
		{"not in use", Txe{m: Tx{Proto: ReceiptOnly}}, false},
	} {
		require.Equal(t, c.want, c.tx.HasPending(), c.name)
		p := &Pools{tx: []*Txe{{}, &c.tx}}
		require.Equal(t, c.want, p.HasPending(), c.name)
	}
	for _, c := range []struct {
		name string
		rx   Rxe
		want bool
	}{
		{"RECEIPT is to be posted", Rxe{busy: true, link: live, m: Rx{State: RxAnswer}}, true},
		{"it is under way", Rxe{busy: true, link: live, flying: 1, m: Rx{State: RxDone}}, true},
		{"it has arrived", Rxe{busy: true, link: live, m: Rx{State: RxDone}}, false},
		{"data is to come", Rxe{busy: true, link: live, flying: 1, m: Rx{State: RxMatched}}, false},
		{"a peer that has failed", Rxe{busy: true, link: dead, m: Rx{State: RxAnswer}}, false},
		{"not in use", Rxe{m: Rx{State: RxAnswer}}, false},
	} {
		require.Equal(t, c.want, c.rx.HasPending(), c.name)
		p := &Pools{rx: []*Rxe{&c.rx, {}}}
		require.Equal(t, c.want, p.HasPending(), c.name)
	}
}

// TestMayCopy: the rest of a canceled send is copied if it is short enough, the device is done
// with what is out, and the peer does not read it.
func TestMayCopy(t *testing.T) {
	const limit = 100
	for _, c := range []struct {
		name     string
		m        Tx
		detached uint64
		copies   bool // the device copies at post
		gathers  gathering
		moves    bool
		want     bool
	}{
		{name: "short", m: Tx{State: TxWait, Proto: LongCTS, Total: 150, Sent: 50}, want: true},
		{name: "a byte more", m: Tx{State: TxWait, Proto: LongCTS, Total: 151, Sent: 50}},
		{name: "packets are under way", m: Tx{State: TxWait, Proto: LongCTS, Total: 150, Sent: 50, Flying: 1}},
		{name: "they were copied", m: Tx{State: TxWait, Proto: LongCTS, Total: 150, Sent: 50, Flying: 1}, copies: true, want: true},
		{name: "they were gathered", m: Tx{State: TxWait, Proto: LongCTS, Total: 150, Sent: 50, Flying: 1}, copies: true, gathers: gathersMemory},
		{name: "others have left as much", m: Tx{State: TxWait, Proto: LongCTS, Total: 150, Sent: 50}, detached: detachedLimits*limit - 99},
		{name: "and just not so much", m: Tx{State: TxWait, Proto: LongCTS, Total: 150, Sent: 50}, detached: detachedLimits*limit - 100, want: true},
		{name: "the peer reads it", m: Tx{State: TxAwait, Proto: LongRead, Total: 50, answer: true}},
		{name: "the peer has read it", m: Tx{State: TxDrain, Proto: LongRead, Total: 50}, want: true},
		{name: "it is to read it", m: Tx{State: TxReq, Proto: LongRead, Total: 50}},
		{name: "it reads memory that can move", m: Tx{State: TxAwait, Proto: LongRead, Total: 100, Sent: 0, answer: true}, moves: true, want: true},
		{name: "memory that moves moves as a whole", m: Tx{State: TxAwait, Proto: RuntRead, Total: 101, Sent: 50, answer: true}, moves: true},
	} {
		p := &Pools{detached: c.detached, Policy: new(Policy), env: &peer.Env{Q: new(device.Queue)}}
		*p.Policy = policyOf(settings.Settings{})
		p.Policy.DetachLimit, p.Info.CopiesAtPost = limit, c.copies
		tx := &Txe{pools: p, m: c.m, x: &txExt{moves: c.moves}}
		tx.marks.gathers = c.gathers
		require.Equal(t, c.want, tx.mayCopy(), c.name)
	}
}

// TestCopyRest: what a canceled send goes on from.
func TestCopyRest(t *testing.T) {
	for _, c := range []struct {
		name  string
		req   *Request
		sent  uint64
		moves bool
		want  string
		base  uint64
	}{
		{"nothing is out", &Request{Buf: []byte("abcdefghij")}, 0, false, "abcdefghij", 0},
		{"a part is out", &Request{Buf: []byte("abcdefghij")}, 4, false, "efghij", 4},
		{"all is out", &Request{Buf: []byte("abcdefghij")}, 10, false, "", 10},
		{"the peer has the address of the whole", &Request{Buf: []byte("abcdefghij")}, 4, true, "abcdefghij", 0},
		{"pieces", threePieces(), 4, false, "efghij", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := new(Pools)
			tx := &Txe{pools: p, q: c.req, m: Tx{Sent: c.sent}, x: &txExt{moves: c.moves}}
			was := c.req.Buf
			tx.copyRest()
			require.Equal(t, c.want, string(tx.q.Buf))
			require.False(t, Overlap(was, tx.q.Buf), "the buffer is the caller's")
			require.Equal(t, c.base, tx.base)
			require.EqualValues(t, len(c.want), p.detached)
			require.Zero(t, tx.q.Flags&HasIOV)
		})
	}
	cmp := &Request{Kind: KindAtomic, Buf: []byte("ab"), More: &More{Compare: []byte("cd"), Result: make([]byte, 2)}}
	was := *cmp.More
	tx := &Txe{pools: new(Pools), q: cmp, x: new(txExt)}
	tx.copyRest()
	require.Equal(t, "cd", string(cmp.More.Compare))
	require.Len(t, cmp.More.Result, 2)
	require.False(t, Overlap(was.Compare, cmp.More.Compare))
	require.False(t, Overlap(was.Result, cmp.More.Result), "what was fetched goes to no one's memory")
}

// TestDrops: data for a caller that has left, or that wants none, is counted and thrown away.
func TestDrops(t *testing.T) {
	for s, want := range map[CallerState]bool{
		CallerHolding: false, CallerWithdrawing: false, CallerRevoked: false,
		CallerLeaving: true, CallerDetached: true, CallerEnding: true, CallerTold: true,
	} {
		require.Equal(t, want, (&Rxe{c: Caller{state: s}}).drops(), s)
		require.Equal(t, want, (&Rxe{c: Caller{state: s}, entry: new(Entry)}).drops(), s)
		require.True(t, (&Rxe{c: Caller{state: s}, entry: &Entry{Req: Request{Flags: Discard}}}).drops(), s)
	}
}
