package efa_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// TestErrnos compares the numbers with libfabric's fi_errno.h, and what errors.Is
// finds in them.
func TestErrnos(t *testing.T) {
	for _, x := range []struct {
		err  efa.Errno
		num  int
		also []error
	}{
		{efa.ErrNoEntry, 2, []error{syscall.ENOENT}},
		{efa.ErrIO, 5, []error{syscall.EIO}},
		{efa.ErrAgain, 11, []error{syscall.EAGAIN}},
		{efa.ErrNoMemory, 12, []error{syscall.ENOMEM}},
		{efa.ErrAccess, 13, []error{syscall.EACCES}},
		{efa.ErrBusy, 16, []error{syscall.EBUSY}},
		{efa.ErrInvalid, 22, []error{syscall.EINVAL}},
		{efa.ErrNoMessage, 42, []error{syscall.ENOMSG}},
		{efa.ErrNoData, 61, []error{syscall.ENODATA}},
		{efa.ErrMsgSize, 90, []error{syscall.EMSGSIZE}},
		{efa.ErrNotSupported, 95, []error{syscall.EOPNOTSUPP}},
		{efa.ErrAddrNotAvail, 99, []error{syscall.EADDRNOTAVAIL}},
		{efa.ErrConnAborted, 103, []error{syscall.ECONNABORTED}},
		{efa.ErrNoBuffers, 105, []error{syscall.ENOBUFS}},
		{efa.ErrNotConnected, 107, []error{syscall.ENOTCONN}},
		{efa.ErrClosed, 108, []error{syscall.ESHUTDOWN, net.ErrClosed, os.ErrClosed}},
		{efa.ErrTimedOut, 110, []error{syscall.ETIMEDOUT, os.ErrDeadlineExceeded}},
		{efa.ErrHostUnreach, 113, []error{syscall.EHOSTUNREACH}},
		{efa.ErrAlready, 114, []error{syscall.EALREADY}},
		{efa.ErrRemoteIO, 121, nil},
		{efa.ErrCanceled, 125, []error{syscall.ECANCELED, context.Canceled}},
		{efa.ErrOther, 256, nil},
		{efa.ErrTooSmall, 257, nil},
		{efa.ErrBadState, 258, nil},
		{efa.ErrAvail, 259, nil},
		{efa.ErrBadFlags, 260, nil},
		{efa.ErrNoEQ, 261, nil},
		{efa.ErrDomain, 262, nil},
		{efa.ErrNoCQ, 263, nil},
		{efa.ErrCRC, 264, nil},
		{efa.ErrTruncated, 265, nil},
		{efa.ErrNoKey, 266, nil},
		{efa.ErrNoAV, 267, nil},
		{efa.ErrOverrun, 268, nil},
		{efa.ErrNoRx, 269, nil},
		{efa.ErrNoMR, 270, nil},
	} {
		wrapped := error(&efa.OpError{Op: "send", Peer: 3, Err: x.err})
		require.EqualValues(t, x.num, x.err)
		require.ErrorIs(t, wrapped, x.err)
		for _, e := range x.also {
			require.ErrorIs(t, wrapped, e)
		}
		for _, e := range []error{context.Canceled, context.DeadlineExceeded, net.ErrClosed, os.ErrDeadlineExceeded, efa.ErrPeerFailed} {
			if !errors.Is(e, e) || slices.Contains(x.also, e) {
				continue
			}
			require.NotErrorIs(t, wrapped, e)
		}
		var n efa.Errno
		require.ErrorAs(t, wrapped, &n)
		require.Equal(t, x.err, n)
		require.NotEmpty(t, x.err.Error())
		require.Equal(t, x.err, efa.Number(wrapped))
	}
	require.Equal(t, "efa: send, peer 3: message too long", (&efa.OpError{Op: "send", Peer: 3, Err: efa.ErrMsgSize}).Error())
	require.Equal(t, "efa: recv: operation canceled", (&efa.OpError{Op: "recv", Peer: efa.NoAddr, Err: efa.ErrCanceled}).Error())
}

// form is that of every error of the package: what it says, and what operation that was.
var form = regexp.MustCompile(`^efa: [a-z][a-zA-Z0-9 .:,()_-]*?: [^A-Z\n][^\n]*[^.\n]$`)

// wellFormed reports what is wrong with an error's text.
func wellFormed(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.Regexp(t, form, err.Error())
	require.Equal(t, 1, strings.Count(err.Error(), "efa: "), "one prefix: %s", err)
}

// TestErrorForm: errors of everything that can fail, as a program sees them.
func TestErrorForm(t *testing.T) {
	ctx := testContext(t)
	over, cancel := context.WithCancel(ctx)
	cancel()
	a, b := lab{dev: sim.DeviceConfig{MaxRegions: 3}, ep: efa.EndpointConfig{RxDepth: 2, NextMemory: 64 << 10}}.open(t)
	require.NoError(t, a.av.SetName(a.peer, "rank 1 on node7"))
	mem := alloc(t, b, 64, remote)
	own := alloc(t, a, 64, remote)
	at, none := mem.Remote(), efa.Addr(99)
	idle, err := a.dom.NewEndpoint(efa.EndpointConfig{}) // has no queue, and is not enabled
	require.NoError(t, err)
	unused := newQueue(t, a.dom, 1)
	plain, _ := newPair(t, efa.DomainConfig{})
	gone, _ := lab{}.open(t)
	require.NoError(t, gone.ep.Close())
	past := func() error {
		return second(a.dom.NewEndpoint(efa.EndpointConfig{RxDepth: -1, Level: 9, NextMemory: -1}))
	}

	for name, x := range map[string]struct {
		call func() error
		is   error
		says string
	}{
		"open": {func() error { return second(efa.Open(efa.Config{DeviceName: "nothing"})) }, efa.ErrInvalid, "open: "},
		"open, telemetry": {func() error {
			return second(efa.Open(efa.Config{DeviceName: "sim", Telemetry: efa.Telemetry{Ratio: 2}}))
		}, efa.ErrInvalid, "open: "},
		"open device":    {func() error { return second(efa.OpenDevice("shm?x=1")) }, efa.ErrInvalid, "open device: "},
		"join devices":   {func() error { return second(efa.JoinDevices()) }, efa.ErrInvalid, "join devices: "},
		"devices":        {func() error { return second(efa.Devices(efa.Hints{Driver: "x"})) }, efa.ErrInvalid, "devices: "},
		"devices, name":  {func() error { return second(efa.Devices(efa.Hints{Driver: "sim", Name: "x"})) }, efa.ErrNoData, "devices: "},
		"open endpoint":  {func() error { return second(efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{DeviceName: "?"}})) }, efa.ErrInvalid, "open: "},
		"open, own name": {func() error { return second(efa.OpenEndpoint(over, efa.Setup{Fabric: efa.Config{DeviceName: "sim"}})) }, efa.ErrCanceled, "enable: "},
		"close domain":   {a.dom.Close, efa.ErrBusy, "close domain: "},
		"close fabric":   {a.dom.Fabric().Close, efa.ErrBusy, "close: "},
		"domain":         {func() error { return second(a.dom.Fabric().OpenDomain(efa.DomainConfig{Shards: -1})) }, efa.ErrInvalid, "open domain: "},
		"progress":       {func() error { return second(efa.ParseProgress("x")) }, nil, "parse progress: "},
		"address":        {func() error { return second(efa.ParseAddress("x")) }, efa.ErrInvalid, "parse address: "},
		"address, text":  {func() error { return new(efa.Address).UnmarshalText([]byte("y")) }, efa.ErrInvalid, "parse address: "},
		"vector": {func() error {
			return second(a.dom.OpenAddressVector(efa.AddressVectorConfig{LocalOnly: true, RemoteOnly: true}))
		}, efa.ErrInvalid, "open address vector: "},
		"close vector":      {a.av.Close, efa.ErrBusy, "close address vector: "},
		"insert":            {func() error { return second(a.av.Insert(efa.Address{})) }, efa.ErrAddrNotAvail, "insert: "},
		"insert many":       {func() error { return second(a.av.InsertAll(efa.Address{}, efa.Address{})) }, efa.ErrAddrNotAvail, "insert, address 0: "},
		"insert named":      {func() error { return second(a.av.InsertNamed(efa.Address{}, "x")) }, efa.ErrAddrNotAvail, "insert: "},
		"insert value":      {func() error { return second(a.av.InsertValue(efa.Address{}, 1)) }, efa.ErrAddrNotAvail, "insert: "},
		"lookup":            {func() error { return second(a.av.Lookup(none)) }, efa.ErrInvalid, "lookup: "},
		"device of":         {func() error { return second(a.av.Device(none)) }, efa.ErrInvalid, "lookup: "},
		"remove":            {func() error { return a.av.Remove(ctx, none) }, efa.ErrInvalid, "remove: "},
		"set name":          {func() error { return a.av.SetName(none, "x") }, efa.ErrInvalid, "set name: "},
		"set value":         {func() error { return a.av.SetValue(none, 1) }, efa.ErrInvalid, "set value: "},
		"resolve":           {func() error { return second(a.av.Resolve(over, "127.0.0.1:1")) }, context.Canceled, "resolve 127.0.0.1:1: "},
		"queue":             {func() error { return second(a.dom.NewQueue(-1)) }, efa.ErrInvalid, "new queue: "},
		"close queue":       {a.ep.SendQueue().Close, efa.ErrBusy, "close queue: "},
		"read":              {func() error { return second(unused.Read(ctx, make([]efa.Completion, 1))) }, efa.ErrBadState, "read queue: "},
		"read nothing":      {func() error { return second(unused.Read(ctx, nil)) }, efa.ErrInvalid, "read queue: "},
		"read, over":        {func() error { return second(a.ep.SendQueue().Read(over, make([]efa.Completion, 1))) }, context.Canceled, "read queue: "},
		"read n":            {func() error { return second(unused.ReadN(ctx, nil, 1)) }, efa.ErrInvalid, "read queue: "},
		"counter":           {func() error { return a.dom.NewCounter().Wait(ctx, 1) }, efa.ErrBadState, "wait: "},
		"pool":              {func() error { return second(a.dom.NewRecvPool(efa.RecvPoolConfig{})) }, efa.ErrNoCQ, "new receive pool: "},
		"pool, depth":       {func() error { return second(a.dom.NewRecvPool(efa.RecvPoolConfig{Queue: unused, Depth: -1})) }, efa.ErrInvalid, "new receive pool: "},
		"alloc":             {func() error { return second(a.dom.Alloc(0, 0)) }, efa.ErrInvalid, "alloc: "},
		"alloc, access":     {func() error { return second(a.dom.Alloc(1, 128)) }, efa.ErrInvalid, "alloc: "},
		"register":          {func() error { return second(a.dom.Register(nil, 0)) }, efa.ErrInvalid, "register: "},
		"register dma-buf":  {func() error { return second(a.dom.RegisterDMABuf(-1, 0, 0, 0)) }, efa.ErrInvalid, "register dma-buf: "},
		"export":            {func() error { return second(own.Export(efa.Export{Off: 65})) }, efa.ErrInvalid, "export: "},
		"unexport":          {func() error { return own.Unexport(at) }, efa.ErrNoKey, "unexport: "},
		"remote":            {func() error { return new(efa.Remote).UnmarshalBinary([]byte{9}) }, efa.ErrInvalid, "unmarshal remote: "},
		"endpoint, options": {past, efa.ErrInvalid, "new endpoint: "},
		"endpoint, domain":  {func() error { return second(a.dom.NewEndpoint(efa.EndpointConfig{AV: b.av})) }, efa.ErrDomain, "new endpoint: "},
		"endpoint, direct":  {func() error { return second(a.dom.NewEndpoint(efa.EndpointConfig{Direct: true, Target: efa.CapRead})) }, efa.ErrNotSupported, "new endpoint: "},
		"enable":            {func() error { return a.ep.Enable(ctx) }, efa.ErrBadState, "enable: "},
		"enable closed":     {func() error { return gone.ep.Enable(ctx) }, efa.ErrClosed, "enable: "},
		"snapshot":          {func() error { return second(idle.Snapshot(ctx)) }, efa.ErrBadState, "snapshot: "},
		"stats":             {func() error { return second(gone.ep.Stats(ctx)) }, efa.ErrClosed, "stats: "},
		"event":             {func() error { return second(a.ep.NextEvent(over)) }, context.Canceled, "next event: "},
		"event, closed":     {func() error { return second(gone.ep.NextEvent(ctx)) }, efa.ErrClosed, "next event: "},
		"cancel":            {func() error { return idle.Cancel(1) }, efa.ErrBadState, "cancel: "},
		"reply":             {func() error { return a.ep.Reply(ctx, efa.Message{}, nil) }, efa.ErrInvalid, "reply: "},
		"sender":            {func() error { return second(a.ep.Sender(efa.Message{})) }, efa.ErrInvalid, "sender: "},
		"data layout":       {func() error { return second(efa.DataLayout{ValueBits: 40}.Data(1, 1)) }, efa.ErrInvalid, "data layout: "},
		"send, not enabled": {func() error { return idle.Send(ctx, 0, nil) }, efa.ErrBadState, "send, peer 0: "},
		"send, closed":      {func() error { return gone.ep.Send(ctx, gone.peer, nil) }, efa.ErrClosed, "send, peer "},
		"send, over":        {func() error { return a.ep.Send(over, a.peer, nil) }, efa.ErrCanceled, "send, peer 0 (rank 1 on node7): "},
		"send, nobody":      {func() error { return a.ep.Send(ctx, none, nil) }, efa.ErrInvalid, "send, peer 99: "},
		"send, level":       {func() error { return a.ep.Send(ctx, a.peer, nil, efa.Complete(9)) }, efa.ErrInvalid, "send, peer 0 (rank 1 on node7): "},
		"inject":            {func() error { return a.ep.Send(ctx, a.peer, make([]byte, 1<<20), efa.Inject) }, efa.ErrMsgSize, "send, peer 0 (rank 1 on node7): "},
		"send tag":          {func() error { return a.ep.SendTag(ctx, none, 1, nil) }, efa.ErrInvalid, "send, peer 99: "},
		"recv, over":        {func() error { return second(a.ep.Recv(over, nil)) }, context.Canceled, "recv: "},
		"recv, from":        {func() error { return second(a.ep.Recv(ctx, nil, efa.From(efa.NoAddr))) }, efa.ErrInvalid, "recv: "},
		"recv tag":          {func() error { return second(idle.RecvTag(ctx, efa.AnyTag, nil)) }, efa.ErrBadState, "recv: "},
		"next":              {func() error { return second(a.ep.Next(over)) }, efa.ErrCanceled, "recv: "},
		"peek":              {func() error { return second(a.ep.Peek(ctx)) }, efa.ErrNoMessage, "peek: "},
		"peek, closed":      {func() error { return second(gone.ep.Peek(ctx)) }, efa.ErrClosed, "peek: "},
		"claim":             {func() error { return second(a.ep.ClaimTag(ctx, efa.AnyTag)) }, efa.ErrNoMessage, "claim: "},
		"write, nobody":     {func() error { return a.ep.Memory(none, at).Write(ctx, []byte{1}) }, efa.ErrInvalid, "write, peer 99: "},
		"write, too much":   {func() error { return a.ep.Memory(a.peer, at).Write(ctx, make([]byte, 65)) }, efa.ErrInvalid, "write, peer 0 (rank 1 on node7): "},
		"read, key":         {func() error { return a.ep.Memory(a.peer, efa.RawRemote(1, 8, 77)).Read(ctx, make([]byte, 8)) }, efa.ErrAccess, "read, peer 0 (rank 1 on node7): "},
		"read memory, over": {func() error { return a.ep.Memory(a.peer, at).Read(over, make([]byte, 8)) }, efa.ErrCanceled, "read, peer 0 (rank 1 on node7): "},
		"atomic": {func() error {
			return efa.NewCell[uint64](a.ep.Memory(a.peer, at)).Update(ctx, amo.CompareSwap, []uint64{1})
		}, efa.ErrNotSupported, "atomic, peer 0 (rank 1 on node7): "},
		"post, no queue": {func() error { return second(plain.ep.PostSend(&efa.SendReq{To: plain.peer})) }, efa.ErrNoCQ, "send, peer "},
		"post, many":     {func() error { return second(plain.ep.PostSends([]efa.SendReq{{To: plain.peer}})) }, efa.ErrNoCQ, "send"},
		"post, bufs": {func() error {
			return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: []byte{1}, Bufs: [][]byte{{1}}}))
		}, efa.ErrInvalid, "send, peer 0 (rank 1 on node7): "},
		"post recv, level": {func() error { return second(idle.PostRecv(&efa.RecvReq{})) }, efa.ErrBadState, "recv: "},
		"post write":       {func() error { return second(a.ep.PostWrite(&efa.WriteReq{To: none, At: at, Buf: []byte{1}})) }, efa.ErrInvalid, "write, peer 99: "},
		"post read":        {func() error { return second(idle.PostRead(&efa.ReadReq{From: a.peer})) }, efa.ErrBadState, "read, peer 0"},
		"post atomic":      {func() error { return second(a.ep.PostAtomic(&efa.AtomicReq{To: a.peer, Op: 77})) }, efa.ErrNotSupported, "atomic, peer 0 (rank 1 on node7): "},
		"post peek":        {func() error { return second(a.ep.PostPeek(&efa.PeekReq{Claim: true, Discard: true})) }, efa.ErrInvalid, "peek: "},
		"start":            {func() error { return second(a.ep.Start(&efa.SendReq{To: none})) }, efa.ErrInvalid, "send, peer 99: "},
		"start, multi":     {func() error { return second(a.ep.Start(&efa.RecvReq{Multi: true, Buf: make([]byte, 1<<16)})) }, efa.ErrInvalid, "recv: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := x.call()
			wellFormed(t, err)
			require.True(t, strings.HasPrefix(err.Error(), "efa: "+x.says), "%s, not %s", err, x.says)
			if x.is != nil {
				require.ErrorIs(t, err, x.is)
			}
		})
	}
	require.NoError(t, idle.Close())
}

// TestErrorFormOutcomes: of operations that were accepted.
func TestErrorFormOutcomes(t *testing.T) {
	ctx := testContext(t)
	a, b := lab{ep: efa.EndpointConfig{RxDepth: 1}}.open(t)
	require.NoError(t, b.av.SetName(b.peer, "rank 0 on node7"))
	op := start(t, a, &efa.SendReq{To: a.peer, Buf: make([]byte, 2)})
	err := second(b.ep.Recv(ctx, make([]byte, 1)))
	done(t, op)
	wellFormed(t, err)
	require.Contains(t, err.Error(), "efa: recv, peer 0 (rank 0 on node7): message of 2 bytes was truncated to the buffer's 1")
	require.ErrorAs(t, err, new(*efa.OpError))

	require.NoError(t, second(a.ep.PostRecv(&efa.RecvReq{})))
	again := second(a.ep.PostRecv(&efa.RecvReq{}))
	wellFormed(t, again)
	require.ErrorIs(t, again, efa.ErrAgain)
	require.False(t, errors.As(again, new(*efa.OpError)), "it was not accepted")

	got := start(t, b, &efa.RecvReq{})
	require.NoError(t, b.ep.Cancel(got.ID()))
	wellFormed(t, second(got.Wait(ctx)))
	require.NoError(t, a.ep.Close())
	wellFormed(t, b.ep.Send(ctx, b.peer, []byte{1}, efa.Complete(efa.Delivered)))
}

// victims are memory of each kind at one side, and ways to ask for it wrongly.
func victims(t *testing.T, s *side, n int) (ms []*efa.MemoryRegion, wrong map[string][2]efa.Remote) {
	readable, writable := alloc(t, s, n, efa.AccessRemoteRead), alloc(t, s, n, efa.AccessRemoteWrite)
	neither := alloc(t, s, n, efa.AccessRecv)
	other := func(r efa.Remote, by, mask uint64) efa.Remote {
		addr, key := r.Raw()
		return efa.RawRemote(addr+by, r.Len(), key^mask)
	}
	shift := func(m *efa.MemoryRegion, by uint64) efa.Remote { return other(m.Remote(), by, 0) }
	key := other(readable.Remote(), 0, 0x5555)
	closed, err := s.dom.Alloc(n, remote)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	return []*efa.MemoryRegion{readable, writable, neither}, map[string][2]efa.Remote{ // to read, to write
		"unknown key": {key, key},
		"closed":      {closed.Remote(), closed.Remote()},
		"right":       {writable.Remote(), readable.Remote()},
		"no right":    {neither.Remote(), neither.Remote()},
		"before":      {shift(readable, ^uint64(0)), shift(writable, ^uint64(0))},
		"behind":      {shift(readable, uint64(n)), shift(writable, uint64(n))},
		"half":        {shift(readable, uint64(n)-4), shift(writable, uint64(n)-4)},
		"far away":    {shift(readable, 1<<62), shift(writable, 1<<62)},
	}
}

// TestRefused: access with a key that nobody has, beyond the region or against its
// rights ends with an error at those who wait for it, with an event at the target,
// and changes nothing there. Both go on.
func TestRefused(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		const n = 100_000
		// Each with an endpoint of its own, since too many refusals are an attack.
		ms, wrong := victims(t, b, n)
		local := alloc(t, a, n, 0).Bytes()
		for name, at := range wrong {
			s := newEndpoint(t, a.dom, efa.EndpointConfig{SendQueue: a.ep.SendQueue()})
			to, err := s.av.Insert(b.ep.Address())
			require.NoError(t, err)
			refused := 0
			check := func(what string, err error) {
				t.Helper()
				what = fmt.Sprintf("%s: %s", name, what)
				require.ErrorIs(t, err, efa.ErrAccess, what)
				var oe *efa.OpError
				require.ErrorAs(t, err, &oe, what)
				require.Equal(t, to, oe.Peer, what)
				require.NotZero(t, oe.Provider, what)
				refused++
			}
			for _, size := range []int{8, 20_000, 70_000} {
				what := fmt.Sprint(size, " bytes")
				check("read of "+what, s.ep.Memory(to, at[0]).Read(ctx, local[:size]))
				check("delivered write of "+what, s.ep.Memory(to, at[1]).Write(ctx, local[:size], efa.Complete(efa.Delivered)))
				if size > 8 { // of the other nobody hears but the target
					check("write of "+what, s.ep.Memory(to, at[1]).Write(ctx, local[:size]))
				}
			}
			check("load", second(efa.NewCell[int64](s.ep.Memory(to, at[0])).Load(ctx)))
			check("swap", second(efa.NewCell[int64](s.ep.Memory(to, at[0])).CompareSwap(ctx, int64(1), 2)))
			check("delivered add", efa.NewCell[float64](s.ep.Memory(to, at[1])).Add(ctx, 1.5, efa.Complete(efa.Delivered)))
			require.NoError(t, efa.NewCell[float64](s.ep.Memory(to, at[1])).Add(ctx, 1.5), "nobody hears of it but the target")
			told := refused + 1
			if strings.HasPrefix(a.dom.Limits().Device, "shm") {
				told = 4 // the others' processors do the rest, and the target does not see it
			}
			for told > 0 {
				ev, err := b.ep.NextEvent(ctx)
				require.NoError(t, err)
				if ev.Kind == efa.NewPeer || !ev.Address.Equal(s.ep.Address()) {
					continue // of one before: a write may be refused in several parts
				}
				require.Equal(t, efa.AccessRefused, ev.Kind, "%v", ev.Err)
				require.Error(t, ev.Err)
				if rma := strings.Contains(ev.Err.Error(), "_RT"); rma { // else it is the device's word
					byKey := name == "unknown key" || name == "closed"
					require.Equal(t, byKey, errors.Is(ev.Err, efa.ErrNoKey), "%s: %v", name, ev.Err)
					require.Equal(t, !byKey, errors.Is(ev.Err, efa.ErrAccess), "%s: %v", name, ev.Err)
				}
				told--
			}
			hello := start(t, s, &efa.SendReq{To: to})
			_, err = b.ep.Recv(ctx, nil)
			require.NoError(t, err)
			done(t, hello)
		}
		for _, m := range ms {
			require.Equal(t, pattern(n), m.Bytes())
		}
		marker(t, a, b)
	})
}

// TestReachable: each number that the package returns, by something that a program may do.
// ErrIO is in TestEnableAgain, ErrNoData in TestDevicesHints, ErrTimedOut in TestOldPeerRefuses,
// what peers and devices do in
// TestStatusErrors.
func TestReachable(t *testing.T) {
	ctx := testContext(t)
	for want, call := range map[efa.Errno]func(t *testing.T) error{
		efa.ErrAgain: func(t *testing.T) error {
			a, _ := lab{ep: efa.EndpointConfig{RxDepth: 1}}.open(t)
			require.NoError(t, second(a.ep.PostRecv(&efa.RecvReq{})))
			return second(a.ep.PostRecv(&efa.RecvReq{}))
		},
		efa.ErrBusy: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return a.dom.Close()
		},
		efa.ErrInvalid: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return a.ep.Send(ctx, a.peer, nil, efa.Complete(efa.Delivered+1))
		},
		efa.ErrMsgSize: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return a.ep.Send(ctx, a.peer, make([]byte, a.dom.Limits().MaxInject+1), efa.Inject)
		},
		efa.ErrNotSupported: func(t *testing.T) error {
			a, _ := lab{ep: efa.EndpointConfig{Direct: true}}.open(t)
			return a.ep.SendTag(ctx, a.peer, 1, nil)
		},
		efa.ErrCanceled: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			op := start(t, a, &efa.RecvReq{})
			require.NoError(t, a.ep.Cancel(op.ID()))
			return second(op.Wait(ctx))
		},
		efa.ErrClosed: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			require.NoError(t, a.ep.Close())
			return a.ep.Send(ctx, a.peer, nil)
		},
		efa.ErrBadState: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return a.ep.Enable(ctx)
		},
		efa.ErrDomain: func(t *testing.T) error {
			a, b := lab{}.open(t)
			return second(a.dom.NewEndpoint(efa.EndpointConfig{AV: b.av}))
		},
		efa.ErrNoCQ: func(t *testing.T) error {
			a, _ := newPair(t, efa.DomainConfig{})
			return second(a.ep.PostSend(&efa.SendReq{To: a.peer}))
		},
		efa.ErrTruncated: func(t *testing.T) error {
			a, b := lab{}.open(t)
			op := start(t, a, &efa.SendReq{To: a.peer, Buf: make([]byte, 2)})
			err := second(b.ep.Recv(ctx, make([]byte, 1)))
			done(t, op)
			return err
		},
		efa.ErrNoRx: func(t *testing.T) error {
			a, _ := lab{ep: efa.EndpointConfig{Direct: true, Protocol: efa.ProtocolConfig{RNRRetry: 1}}}.open(t)
			return a.ep.Send(ctx, a.peer, []byte{1})
		},
		efa.ErrNoMemory: func(t *testing.T) error {
			a := open(t, newDevice(t, newFabric(t, sim.Config{MaxQP: 1})), efa.DomainConfig{})
			require.Equal(t, 1, a.dom.Limits().MaxEndpoints)
			ep, err := a.dom.NewEndpoint(efa.EndpointConfig{AV: a.av})
			require.NoError(t, err)
			defer ep.Close()
			return ep.Enable(ctx)
		},
		efa.ErrAddrNotAvail: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return second(a.av.Insert(efa.Address{}))
		},
		efa.ErrNoMR: func(t *testing.T) error {
			a, _ := lab{dev: sim.DeviceConfig{MaxRegions: 1}}.open(t)
			require.Equal(t, 1, a.dom.Limits().MaxRegions)
			alloc(t, a, 1, 0)
			return second(a.dom.Alloc(1, 0))
		},
		efa.ErrNoMessage: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return second(a.ep.Peek(ctx))
		},
		efa.ErrAccess: func(t *testing.T) error {
			a, b := lab{}.open(t)
			return a.ep.Memory(a.peer, alloc(t, b, 8, 0).Remote()).Read(ctx, make([]byte, 8))
		},
		efa.ErrNoKey: func(t *testing.T) error {
			a, b := lab{}.open(t)
			require.ErrorIs(t, a.ep.Memory(a.peer, efa.RawRemote(1, 8, 77)).Read(ctx, make([]byte, 8)), efa.ErrAccess)
			for {
				e, err := b.ep.NextEvent(ctx)
				require.NoError(t, err)
				if e.Kind == efa.AccessRefused {
					require.Equal(t, efa.ErrInvalid, efa.Number(e.Err), "libfabric's number for a wrong key")
					return e.Err
				}
			}
		},
	} {
		t.Run(want.Name(), func(t *testing.T) {
			err := call(t)
			require.ErrorIs(t, err, want)
			if want != efa.ErrNoKey {
				require.Equal(t, want, efa.Number(err))
			}
		})
	}
	require.Zero(t, efa.Number(nil))
	require.Equal(t, efa.ErrOther, efa.Number(errors.New("another's")))
	require.Equal(t, efa.ErrConnAborted, efa.Number(fmt.Errorf("so: %w", efa.ErrPeerFailed)))
	require.Equal(t, efa.ErrTimedOut, efa.Number(context.DeadlineExceeded))
	require.Equal(t, efa.ErrCanceled, efa.Number(context.Canceled))
}

// TestStatusErrors: every status with which a device may end a packet or a read, as the
// operation reports it: libfabric's number, the provider's code and its text.
func TestStatusErrors(t *testing.T) {
	for s, want := range map[device.Status]efa.Errno{
		device.StatusQPInternal:      efa.ErrInvalid,
		device.StatusUnsupportedOp:   efa.ErrInvalid,
		device.StatusInvalidAH:       efa.ErrInvalid,
		device.StatusInvalidLKey:     efa.ErrInvalid,
		device.StatusLocalBadLength:  efa.ErrMsgSize,
		device.StatusBadAddress:      efa.ErrAccess, // libfabric's EINVAL is in it too
		device.StatusAbort:           efa.ErrConnAborted,
		device.StatusBadDestQPN:      efa.ErrNotConnected,
		device.StatusRemoteBadLength: efa.ErrMsgSize,
		device.StatusBadStatus:       efa.ErrRemoteIO,
		device.StatusUnresponsive:    efa.ErrConnAborted,
		device.StatusUnknownPeer:     efa.ErrNotConnected,
		device.StatusUnreachable:     efa.ErrHostUnreach,
		device.StatusMismatch:        efa.ErrInvalid,
	} {
		for _, wr := range []device.WR{device.WRSend, device.WRRead} {
			t.Run(fmt.Sprintf("%d %v", wr, s), func(t *testing.T) {
				ctx := testContext(t)
				f := newFabric(t, sim.Config{InOrder: true})
				sides := [2]*side{}
				for i := range sides {
					d, err := f.OpenDevice(sim.DeviceConfig{RDMARead: true, MinReadWrite: 1})
					require.NoError(t, err)
					sides[i] = newEndpoint(t, domainOn(t, d, efa.DomainConfig{}), efa.EndpointConfig{})
				}
				a, b := sides[0], sides[1]
				introduce(t, a, b)
				op := start(t, a, &efa.SendReq{To: a.peer})
				require.NoError(t, second(b.ep.Recv(ctx, nil)))
				done(t, op) // both know each other
				require.NoError(t, b.ep.Send(ctx, b.peer, nil, efa.Inject))
				require.NoError(t, second(a.ep.Recv(ctx, nil)))
				m := alloc(t, b, 1<<16, efa.AccessRemoteRead)
				require.NoError(t, second(f.AddRule(sim.Rule{Fault: sim.FaultStatus, Status: s, WRs: []device.WR{wr}, From: endOf(a)})))
				var err error
				if wr == device.WRRead {
					err = a.ep.Memory(a.peer, m.Remote()).Read(ctx, alloc(t, a, 1<<16, 0).Bytes())
				} else {
					err = a.ep.Send(ctx, a.peer, []byte{1})
				}
				require.ErrorIs(t, err, want)
				var oe *efa.OpError
				require.ErrorAs(t, err, &oe)
				code := efa.Provider(s)
				if s == device.StatusUnresponsive {
					code = 4124
				}
				require.Equal(t, code, oe.Provider)
				require.ErrorContains(t, err, code.String())
				require.Equal(t, s.Gone(), errors.Is(err, efa.ErrPeerFailed))
			})
		}
	}
}

// endOf is a side's place on a simulated fabric.
func endOf(s *side) sim.Endpoint {
	raw, _ := s.ep.Address().Raw("sim")
	return sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}
}
