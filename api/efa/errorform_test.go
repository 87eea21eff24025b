package efa_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

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
