package efa_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

var modes = []efa.Progress{efa.ProgressManual, efa.ProgressPinned}

// TestSizes moves messages on both sides of each switch point, with the receive
// posted first and with the message first, in each progress mode.
func TestSizes(t *testing.T) {
	for _, mode := range some(t, modes) {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := newPair(t, efa.DomainConfig{Progress: mode})
			ctx := testContext(t)
			for _, n := range []int{0, 1, 8, 8000, 8711, 8712, 8713, 8747, 8748, 8749, 20000, 65535, 65536, 65537, 300000, 5 << 20} {
				for _, tagged := range []bool{false, true} {
					p := pattern(n)
					send := func() error {
						if tagged {
							return a.ep.SendTag(ctx, a.peer, uint64(n), p, efa.Data(uint64(n)))
						}
						return a.ep.Send(ctx, a.peer, p, efa.Data(uint64(n)))
					}
					q := make([]byte, n)
					recv := func() (efa.Message, error) {
						if tagged {
							return b.ep.RecvTag(ctx, efa.Match{Tag: uint64(n)}, q)
						}
						return b.ep.Recv(ctx, q)
					}
					done := make(chan error, 1)
					go func() { done <- send() }()
					m, err := recv()
					require.NoError(t, err, n)
					require.NoError(t, <-done)
					require.Equal(t, efa.Message{N: n, From: b.peer, Tag: m.Tag, Data: uint64(n), HasData: true, Tagged: tagged}.N, m.N)
					require.Equal(t, b.peer, m.From)
					require.Equal(t, uint64(n), m.Data)
					require.True(t, m.HasData)
					require.Equal(t, tagged, m.Tagged)
					require.Equal(t, must(a.ep.Address().Raw("sim")), m.Raw())
					require.True(t, bytes.Equal(p, q), "payload of %d bytes", n)
				}
			}
		})
	}
}

func must[T any](v T, ok bool) T {
	if !ok {
		panic("missing")
	}
	return v
}

// TestOrder: messages of mixed sizes between two endpoints arrive in the order of
// their sending.
func TestOrder(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx := testContext(t)
	sizes := []int{3, 70000, 9000, 0, 8, 66000, 1, 20000, 500}
	const rounds = 40
	done := make(chan error, 1)
	go func() {
		for i := range rounds * len(sizes) {
			p := fmt.Appendf(nil, "%06d", i)
			p = append(p, make([]byte, sizes[i%len(sizes)])...)
			if err := a.ep.Send(ctx, a.peer, p); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	buf := make([]byte, 80000)
	for i := range rounds * len(sizes) {
		m, err := b.ep.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%06d", i), string(buf[:6]))
		require.Equal(t, 6+sizes[i%len(sizes)], m.N)
	}
	require.NoError(t, <-done)
}

// TestSelf: an endpoint can talk to itself.
func TestSelf(t *testing.T) {
	a, _ := newPair(t, efa.DomainConfig{})
	self, err := a.av.Insert(a.ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)
	for _, n := range []int{0, 100, 20000, 200000} {
		done := make(chan error, 1)
		go func() { done <- a.ep.Send(ctx, self, pattern(n)) }()
		q := make([]byte, n)
		m, err := a.ep.Recv(ctx, q)
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.Equal(t, self, m.From)
		require.True(t, bytes.Equal(pattern(n), q))
	}
}

// TestManySenders: every message of several senders arrives once, each sender's
// in order.
func TestManySenders(t *testing.T) {
	const senders, each = 6, 300
	hub := newHub(t, senders+1)
	ctx := testContext(t)
	recv := hub[0]
	errs := make(chan error, senders)
	for i := range senders {
		go func() {
			s := hub[i+1]
			for n := range each {
				if err := s.ep.SendTag(ctx, s.peer, uint64(i), fmt.Appendf(nil, "%d", n)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	next := make([]int, senders)
	buf := make([]byte, 64)
	for range senders * each {
		m, err := recv.ep.RecvTag(ctx, efa.AnyTag, buf)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(next[m.Tag]), string(buf[:m.N]))
		next[m.Tag]++
	}
	for range senders {
		require.NoError(t, <-errs)
	}
}

// TestMessageProtocols: on both sides of each switch point of messages the
// subprotocol is what it should be, whether or not the receive was posted first.
func TestMessageProtocols(t *testing.T) {
	const (
		mtu     = sim.DefaultMTU
		headers = wire.ConnIDHdrLen + wire.CQDataHdrLen
		eager   = mtu - wire.EagerMsgRTMLen - headers
		dcEager = mtu - wire.DCEagerMsgRTMLen - headers
		dcTag   = mtu - wire.DCEagerTagRTMLen - headers
		most    = 1 << 21
	)
	// What cannot be read into plain memory, the receiver asks for in packets.
	replaced := map[string]string{"long-read": "long-CTS", "runting read": "long-CTS"}
	reads := sim.DeviceConfig{RDMARead: true, LocalKeys: true}
	type row struct {
		size  int
		proto string
	}
	for name, x := range map[string]struct {
		dev   sim.DeviceConfig
		ep    efa.ProtocolConfig
		level efa.Level
		tag   bool
		plain bool // the sender's memory is not registered
		rows  []row
	}{
		"plain": {rows: []row{{0, "eager"}, {eager, "eager"}, {eager + 1, "medium"}, {65536, "medium"}, {65537, "long-CTS"}, {most, "long-CTS"}}},
		"delivered": {level: efa.Delivered, rows: []row{
			{0, "DC eager"}, {dcEager, "DC eager"}, {dcEager + 1, "DC medium"}, {65536, "DC medium"}, {65537, "DC long-CTS"},
		}},
		"matched, tagged": {level: efa.Delivered, tag: true, rows: []row{{dcTag, "DC eager"}, {dcTag + 1, "DC medium"}, {65537, "DC long-CTS"}}},
		"reads":           {dev: reads, rows: []row{{65536, "medium"}, {1<<20 - 1, "long-CTS"}, {1 << 20, "long-read"}, {1<<20 + 1, "long-read"}}},
		"reads, delivered": {dev: reads, level: efa.Delivered, tag: true, rows: []row{
			{1<<20 - 1, "DC long-CTS"}, {1 << 20, "long-read"},
		}},
		"reads, own switch point": {
			dev: reads, ep: efa.ProtocolConfig{MinRead: 5000, ReadSegment: 1111},
			rows: []row{{4999, "eager"}, {5000, "long-read"}, {5001, "long-read"}, {100_000, "long-read"}},
		},
		"runting": {
			dev: reads, ep: efa.ProtocolConfig{MinRead: 20_000, RuntSize: 10_000}, tag: true,
			rows: []row{{19_999, "medium"}, {20_000, "runting read"}, {most, "runting read"}},
		},
		"plain memory": {dev: reads, plain: true, rows: []row{{1 << 20, "long-CTS"}}},
		"none wanted":  {dev: reads, ep: efa.ProtocolConfig{MinRead: -1}, rows: []row{{1 << 20, "long-CTS"}}},
		"no RDMA":      {dev: reads, ep: efa.ProtocolConfig{NoRDMARead: true}, rows: []row{{1 << 20, "long-CTS"}}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := lab{dev: x.dev, ep: efa.EndpointConfig{Protocol: x.ep}}.open(t)
			marker(t, a, b)
			marker(t, b, a)
			src, dst := alloc(t, a, most, 0).Bytes(), alloc(t, b, most, 0).Bytes()
			if x.plain {
				src = pattern(most)
			}
			for i, row := range x.rows {
				for plain, to := range [][]byte{dst[:row.size], make([]byte, row.size)} {
					what, proto := fmt.Sprintf("message of %d", row.size), row.proto
					if plain == 1 {
						if proto = replaced[proto]; proto == "" {
							proto = row.proto
						} else if x.level == efa.Delivered {
							proto = "DC " + proto
						}
					}
					clear(to)
					send := &efa.SendReq{To: a.peer, Buf: src[:row.size], Level: x.level, Tagged: x.tag, Tag: 5, HasData: true, Data: 1 << 40}
					recv := &efa.RecvReq{Buf: to, Tagged: x.tag, Tag: 5}
					var s, r *efa.Op
					if i%2 == 0 {
						s, r = start(t, a, send), start(t, b, recv)
					} else {
						r, s = start(t, b, recv), start(t, a, send)
					}
					c := done(t, r)
					require.Equal(t, row.size, c.N, what)
					require.EqualValues(t, 1<<40, c.Data, what)
					require.True(t, bytes.Equal(src[:row.size], to), what)
					require.Equal(t, proto, done(t, s).Protocol.String(), what)
				}
			}
		})
	}
}

// TestDelivered: a send with that level does not complete before a receive has the
// message, one with the default level does.
func TestDelivered(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		for _, n := range []int{0, 5000, 50_000, 200_000, 2 << 20} {
			op := start(t, a, &efa.SendReq{To: a.peer, Buf: make([]byte, n), Level: efa.Delivered, Tagged: true})
			marker(t, a, b)
			select {
			case <-op.Done():
				t.Fatalf("%d bytes: complete without a receive", n)
			default:
			}
			_, err := b.ep.RecvTag(ctx, efa.AnyTag, make([]byte, n))
			require.NoError(t, err)
			done(t, op)
		}
		require.NoError(t, a.ep.Send(ctx, a.peer, make([]byte, 100)), "nobody receives it")
		// An endpoint's level is a default, which a call can change.
		v := newEndpoint(t, a.dom, efa.EndpointConfig{Level: efa.Delivered, AV: a.av})
		require.NoError(t, v.ep.Send(ctx, a.peer, make([]byte, 100), efa.Complete(efa.Transmitted)))
		require.NoError(t, v.ep.Send(ctx, a.peer, make([]byte, 100), efa.Inject))
	})
}

// large is how long TestLarge's messages are. It needs twice as much memory, of which that of shm
// must fit in /dev/shm:
//
//	go test ./api/efa -run 'TestLarge$' -large $((5<<30))
var large = flag.Int("large", 32<<20, "TestLarge: bytes of each transfer")

// stamp fills p with words of which no two are equal, so that nothing that is at a wrong place
// goes unnoticed. The rest of less than a word stays.
func stamp(p []byte, seed uint64) {
	for i := 0; i+8 <= len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], word(i, seed))
	}
}

// word is the word of a pattern at an offset: a bijection of it.
func word(i int, seed uint64) uint64 { return (uint64(i) ^ seed) * 0x9e3779b97f4a7c15 }

// wrongAt is the first word of p that is not the pattern's, -1 if there is none.
func wrongAt(p []byte, seed uint64) int {
	for i := 0; i+8 <= len(p); i += 8 {
		if binary.LittleEndian.Uint64(p[i:]) != word(i, seed) {
			return i
		}
	}
	return -1
}

// protocols are what carries a message, a write and a read there.
var protocols = map[string][]string{
	"devices": {"long-read", "direct write", "direct read"},
	"packets": {"long-CTS", "DC long-CTS write", "long-CTS read"},
}

// TestLarge: a message, a write and a read of -large bytes arrive byte by byte, carried by the
// devices themselves and by packets.
func TestLarge(t *testing.T) {
	n := *large &^ 7
	for _, place := range []string{"shm", "tcp"} {
		t.Run(place, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "fabric")
			dev := func() efa.Device {
				if place == "shm" {
					return closed(t)(shm.Open(shm.Config{Dir: dir}))
				}
				return closed(t)(tcp.Open(tcp.Config{}))
			}
			doms := [2]*efa.Domain{domainOn(t, dev(), efa.DomainConfig{}), domainOn(t, dev(), efa.DomainConfig{})}
			mem := [2]*efa.MemoryRegion{}
			for i, d := range doms {
				m, err := d.Alloc(n, efa.AccessSend|efa.AccessRecv|efa.AccessRemoteRead|efa.AccessRemoteWrite)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, m.Close()) })
				mem[i] = m
			}
			from, to := mem[0].Bytes(), mem[1].Bytes()
			for name, protocol := range map[string]efa.ProtocolConfig{
				"devices": {MinRead: 1, MinReadWrite: 1},
				"packets": {MinRead: -1, MinReadWrite: -1, NoRDMARead: true, NoRDMAWrite: true},
			} {
				t.Run(name, func(t *testing.T) {
					cfg := efa.EndpointConfig{Protocol: protocol}
					a, b := newEndpoint(t, doms[0], cfg), newEndpoint(t, doms[1], cfg)
					introduce(t, a, b)
					for _, s := range [][2]*side{{a, b}, {b, a}} { // so that both know what the other can do
						op := start(t, s[0], &efa.SendReq{To: s[0].peer})
						require.NoError(t, second(s[1].ep.Recv(t.Context(), nil)))
						done(t, op)
					}
					for i, way := range []struct {
						name  string
						src   []byte
						dst   []byte
						begin func() (efa.Completion, error)
					}{
						{"message", from, to, func() (efa.Completion, error) {
							recv := start(t, b, &efa.RecvReq{Buf: to})
							c, err := start(t, a, &efa.SendReq{To: a.peer, Buf: from}).Wait(t.Context())
							require.Equal(t, n, done(t, recv).N)
							return c, err
						}},
						{"write", from, to, func() (efa.Completion, error) {
							return start(t, a, &efa.WriteReq{To: a.peer, At: mem[1].Remote(), Buf: from, Level: efa.Delivered}).Wait(t.Context())
						}},
						{"read", to, from, func() (efa.Completion, error) {
							return start(t, a, &efa.ReadReq{From: a.peer, At: mem[1].Remote(), Buf: from}).Wait(t.Context())
						}},
					} {
						clear(way.dst)
						stamp(way.src, uint64(i+1)<<40)
						began := clock.System.Now()
						c, err := way.begin()
						require.NoError(t, err, way.name)
						took := clock.System.Now().Sub(began)
						require.Equal(t, n, c.N)
						require.Equal(t, protocols[name][i], c.Protocol.String())
						require.Equal(t, -1, wrongAt(way.dst, uint64(i+1)<<40), "the first wrong word of the %s", way.name)
						require.Equal(t, -1, wrongAt(way.src, uint64(i+1)<<40), "what was sent of the %s", way.name)
						t.Logf("%s of %d bytes: %v, %.2f GB/s", way.name, n, c.Protocol, float64(n)/took.Seconds()/1e9)
					}
				})
			}
		})
	}
}

// TestBothWays: 256 messages of 1 MiB in each direction at once, each of them checked byte by
// byte.
func TestBothWays(t *testing.T) {
	const n, size = 256, 1 << 20
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		results := make(chan error, 4)
		run := func(f func() error) { go func() { results <- f() }() }
		for i, s := range []*side{a, b} {
			other, seed := []*side{b, a}[i], uint64(i+1)<<50
			run(func() error {
				p := make([]byte, size)
				for k := range uint64(n) {
					stamp(p, seed+k<<32)
					if err := s.ep.Send(t.Context(), s.peer, p); err != nil {
						return err
					}
				}
				return nil
			})
			run(func() error {
				p := make([]byte, size)
				for k := range uint64(n) {
					m, err := other.ep.Recv(t.Context(), p)
					if err != nil {
						return err
					}
					if at := wrongAt(p, seed+k<<32); m.N != size || at >= 0 {
						return fmt.Errorf("message %d of %d bytes, wrong at %d", k, m.N, at)
					}
				}
				return nil
			})
		}
		for range cap(results) {
			require.NoError(t, <-results)
		}
	})
}

// TestInjectCopies: the buffer is free when the call returns, whatever becomes of
// the message, and at the limit.
func TestInjectCopies(t *testing.T) {
	a, b, _, _ := posted(t, 64, efa.EndpointConfig{})
	ctx := testContext(t)
	limit := a.dom.Limits().MaxInject
	require.Equal(t, 4096, limit)
	sizes := []int{0, 1, 8, 100, limit}
	const rounds = 100
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			p := make([]byte, limit)
			for i := range rounds * len(sizes) {
				p := p[:sizes[i%len(sizes)]]
				for j := range p {
					p[j] = byte(i)
				}
				if i%2 == 0 {
					if err := a.ep.Send(ctx, a.peer, p, efa.Inject); err != nil {
						return err
					}
				} else if op, err := a.ep.Start(&efa.SendReq{To: a.peer, Bufs: [][]byte{p[:len(p)/2], p[len(p)/2:]}, Inject: true}); err != nil {
					return err
				} else if clear(p); i%3 == 0 {
					if _, err := op.Wait(ctx); err != nil {
						return err
					}
				}
				clear(p)
			}
			return nil
		}()
	}()
	q := make([]byte, limit)
	for i := range rounds * len(sizes) {
		m, err := b.ep.Recv(ctx, q)
		require.NoError(t, err)
		require.Equal(t, sizes[i%len(sizes)], m.N)
		for _, c := range q[:m.N] {
			require.Equal(t, byte(i), c, "message %d", i)
		}
	}
	require.NoError(t, <-done)

	over := make([]byte, limit+1)
	err := a.ep.Send(ctx, a.peer, over, efa.Inject)
	require.ErrorIs(t, err, efa.ErrMsgSize)
	require.Contains(t, err.Error(), fmt.Sprint(limit+1))
	require.Contains(t, err.Error(), fmt.Sprint("at most ", limit))
	_, err = a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: over, Inject: true})
	require.ErrorIs(t, err, efa.ErrMsgSize)
}

// TestInjectAllocations: copies are used again.
func TestInjectAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b, _, qb := posted(t, 64, efa.EndpointConfig{})
	p, q := make([]byte, 1000), make([]byte, 1000)
	ctx := context.Background()
	recv := efa.RecvReq{Buf: q}
	var cs [4]efa.Completion
	one := func() {
		_, err := b.ep.PostRecv(&recv)
		require.NoError(t, err)
		require.NoError(t, a.ep.Send(ctx, a.peer, p, efa.Inject))
		_, err = qb.Read(ctx, cs[:])
		require.NoError(t, err)
	}
	for range 200 {
		one()
	}
	require.Less(t, fewestAllocs(500, one), 1.0)
}

// TestSilentFailures: Quiet and injected operations that fail are in the queue,
// each once, though they had no place there; one that nobody reads does not grow
// for ever.
func TestSilentFailures(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	q, counter := newQueue(t, dom, 2), dom.NewCounter()
	s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, SendCounter: counter})
	ctx := testContext(t)
	nobody, err := s.av.Insert(simAddress(77)) // no endpoint is there
	require.NoError(t, err)
	for i := range uint64(10) {
		_, err := s.ep.PostSend(&efa.SendReq{To: nobody, Buf: []byte{1}, Inject: true, Token: i})
		require.NoError(t, err)
		_, err = s.ep.PostSend(&efa.SendReq{To: nobody, Quiet: true, Token: 10 + i})
		require.NoError(t, err)
	}
	seen := map[uint64]bool{}
	var cs [8]efa.Completion
	for len(seen) < 20 {
		n, err := q.Read(ctx, cs[:])
		require.NoError(t, err)
		for _, c := range cs[:n] {
			require.ErrorIs(t, c.Err, efa.ErrPeerFailed)
			require.False(t, seen[c.Token], "%v has two outcomes", c.Token)
			seen[c.Token] = true
		}
	}
	require.Zero(t, q.TryRead(cs[:]))
	_, failed := counter.Value()
	require.EqualValues(t, 20, failed)

	const many = 6000
	for range many {
		require.NoError(t, s.ep.Send(ctx, nobody, nil, efa.Inject))
	}
	require.NoError(t, s.ep.Shutdown(ctx))
	_, failed = counter.Value()
	require.EqualValues(t, 20+many, failed)
	kept := 0
	for n := q.TryRead(cs[:]); n > 0; n = q.TryRead(cs[:]) {
		kept += n
	}
	require.Equal(t, 4096, kept)
}

// replyFabrics opens devices that reach each other, of each kind.
var replyFabrics = map[string]func(t *testing.T) func() (efa.Device, error){
	"shm": func(t *testing.T) func() (efa.Device, error) {
		dir := filepath.Join(t.TempDir(), "fabric")
		return func() (efa.Device, error) { return shm.Open(shm.Config{Dir: dir}) }
	},
	"tcp": func(*testing.T) func() (efa.Device, error) {
		return func() (efa.Device, error) { return tcp.Open(tcp.Config{Addr: netip.MustParseAddr("127.0.0.1")}) }
	},
	"sim": func(t *testing.T) func() (efa.Device, error) {
		f := newFabric(t, sim.Config{InOrder: true})
		return func() (efa.Device, error) { return f.OpenDevice(sim.DeviceConfig{}) }
	},
	"sim reads and writes": func(t *testing.T) func() (efa.Device, error) {
		f := newFabric(t, sim.Config{})
		return func() (efa.Device, error) { return f.OpenDevice(devices["reads and writes"]) }
	},
	"shm and tcp":              func(t *testing.T) func() (efa.Device, error) { return joined(t, true) },
	"tcp beside shm of others": func(t *testing.T) func() (efa.Device, error) { return joined(t, false) },
}

// joined opens shared memory and sockets as one; the processes have the same shared memory, or
// each has its own, as on two hosts.
func joined(t *testing.T, same bool) func() (efa.Device, error) {
	common := filepath.Join(t.TempDir(), "fabric")
	return func() (efa.Device, error) {
		dir := common
		if !same {
			dir = filepath.Join(t.TempDir(), "fabric")
		}
		s, err := shm.Open(shm.Config{Dir: dir})
		require.NoError(t, err)
		x, err := tcp.Open(tcp.Config{Addr: netip.MustParseAddr("127.0.0.1")})
		require.NoError(t, err)
		return efa.JoinDevices(s, x)
	}
}

// TestReply: strangers are answered on every device, short and long, tagged and not, and are known
// by a handle from then on.
func TestReply(t *testing.T) {
	for name, fabric := range replyFabrics {
		t.Run(name, func(t *testing.T) {
			mk := fabric(t)
			server := replySide(t, mk)
			clients := []*side{replySide(t, mk), replySide(t, mk)}
			ctx := testContext(t)
			for _, c := range clients {
				var err error
				c.peer, err = c.av.Insert(server.ep.Address())
				require.NoError(t, err)
			}
			for round := range 2 {
				for i, c := range clients {
					m := heard(t, c, server, pattern(10+i))
					if round == 0 {
						require.Equal(t, efa.NoAddr, m.From, "it is a stranger")
					} else {
						require.EqualValues(t, i, m.From, "it is known now")
					}
					answered(t, server, c, m, pattern(300_000+i))
				}
			}
			require.Equal(t, 2, server.av.Len())
			require.NotEqual(t, clients[0].ep.Address(), clients[1].ep.Address())
			// The answer to a tagged message has its tag.
			c, sent := clients[0], make(chan error, 1)
			go func() { sent <- c.ep.SendTag(ctx, c.peer, 77, []byte("ask")) }()
			buf := make([]byte, 16)
			m, err := server.ep.RecvTag(ctx, efa.AnyTag, buf)
			require.NoError(t, err)
			require.NoError(t, <-sent)
			go func() { sent <- server.ep.Reply(ctx, m, []byte("answer")) }()
			got, err := c.ep.RecvTag(ctx, efa.Match{Tag: 77}, buf)
			require.NoError(t, err)
			require.NoError(t, <-sent)
			require.Equal(t, "answer", string(buf[:got.N]))
			require.Equal(t, c.peer, got.From)
		})
	}
}

// TestReplyTooLate: a message of an endpoint that is gone, or whose handle was removed, is
// answered to nobody, least of all to whom has come since.
func TestReplyTooLate(t *testing.T) {
	for name, fabric := range replyFabrics {
		t.Run(name, func(t *testing.T) {
			mk := fabric(t)
			server, ctx := replySide(t, mk), testContext(t)
			client := replySide(t, mk)
			var err error
			client.peer, err = client.av.Insert(server.ep.Address())
			require.NoError(t, err)
			m := heard(t, client, server, pattern(10))
			require.NoError(t, client.ep.Close())
			err = server.ep.Reply(ctx, m, []byte("answer"))
			require.ErrorIs(t, err, efa.ErrPeerFailed)
			require.ErrorContains(t, err, "efa: send, peer 0: ")
			require.Zero(t, server.av.Len(), "what was inserted for it is gone again")

			other := replySide(t, mk)
			other.peer, err = other.av.Insert(server.ep.Address())
			require.NoError(t, err)
			m = heard(t, other, server, pattern(10))
			h, err := server.ep.Sender(m)
			require.NoError(t, err)
			m = heard(t, other, server, pattern(10))
			require.Equal(t, h, m.From)
			require.NoError(t, server.av.Remove(ctx, h))
			require.ErrorIs(t, server.ep.Reply(ctx, m, nil), efa.ErrNotConnected)
			again, err := server.av.Insert(server.ep.Address()) // takes the free handle
			require.NoError(t, err)
			require.Equal(t, h, again)
			err = server.ep.Reply(ctx, m, nil)
			require.ErrorIs(t, err, efa.ErrNotConnected)
			require.ErrorContains(t, err, "peer 0: ")
			again, err = server.av.Insert(other.ep.Address())
			require.NoError(t, err)
			answered(t, server, other, m, pattern(9))
			h, err = server.ep.Sender(m)
			require.NoError(t, err)
			require.Equal(t, again, h, "it is known by another handle now")
		})
	}
}

// TestReplyToFormer: the message is of an endpoint whose queue pair has been another's since,
// which has sent something as well, and gets no answer that is not for it.
func TestReplyToFormer(t *testing.T) {
	for name, fabric := range replyFabrics {
		if name == "tcp beside shm of others" {
			continue // tcp and "shm and tcp" have what it has
		}
		t.Run(name, func(t *testing.T) {
			mk := fabric(t)
			server, ctx := replySide(t, mk), testContext(t)
			d, err := mk()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			dom := domainOn(t, d, efa.DomainConfig{})
			var ms []efa.Message
			var last *side
			for range 2 {
				last = newEndpoint(t, dom, efa.EndpointConfig{QPN: 4711})
				last.peer, err = last.av.Insert(server.ep.Address())
				require.NoError(t, err)
				ms = append(ms, heard(t, last, server, pattern(10)))
				if len(ms) == 1 {
					require.NoError(t, last.ep.Close())
				}
			}
			require.Equal(t, ms[0].Raw().QPN(), ms[1].Raw().QPN())
			require.NotEqual(t, ms[0].Raw(), ms[1].Raw())
			require.ErrorIs(t, server.ep.Reply(ctx, ms[0], []byte("for the first")), efa.ErrPeerFailed)
			answered(t, server, last, ms[1], []byte("for the second"))
			require.ErrorIs(t, server.ep.Reply(ctx, ms[0], []byte("for the first")), efa.ErrPeerFailed)
			answered(t, server, last, ms[1], []byte("again"))
			require.Equal(t, 1, server.av.Len())
		})
	}
}

// TestReplyToNobody: what was sent, and what is made up, has no sender.
func TestReplyToNobody(t *testing.T) {
	a, _ := newPair(t, efa.DomainConfig{})
	for _, m := range []efa.Message{{}, {From: efa.NoAddr}, {From: 12345}} {
		require.ErrorIs(t, a.ep.Reply(testContext(t), m, nil), efa.ErrInvalid)
	}
}

func replySide(t *testing.T, mk func() (efa.Device, error)) *side {
	t.Helper()
	d, err := mk()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return newEndpoint(t, domainOn(t, d, efa.DomainConfig{}), efa.EndpointConfig{})
}

// heard is a message from one side to the other.
func heard(t *testing.T, from, to *side, p []byte) efa.Message {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- from.ep.Send(testContext(t), from.peer, p) }()
	buf := make([]byte, len(p))
	m, err := to.ep.Recv(testContext(t), buf)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.Equal(t, p, buf[:m.N])
	return m
}

// answered has one side reply to a message that came from the other.
func answered(t *testing.T, from, to *side, m efa.Message, p []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- from.ep.Reply(testContext(t), m, p) }()
	buf := make([]byte, len(p))
	got, err := to.ep.Recv(testContext(t), buf)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.Equal(t, p, buf[:got.N])
	require.Equal(t, to.peer, got.From)
}

// scarce is a pair on shared memory whose receivers have hardly a slot, so that senders
// meet RNR.
func scarce(t *testing.T) (a, b *side, sent *efa.Counter) {
	dir := filepath.Join(t.TempDir(), "fabric")
	mk := func() *side {
		dev, err := shm.Open(shm.Config{Dir: dir})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Close()) })
		dom := domainOn(t, dev, efa.DomainConfig{Progress: efa.ProgressManual})
		q := newQueue(t, dom, 64)
		sent = dom.NewCounter()
		return newEndpoint(t, dom, efa.EndpointConfig{
			SendQueue: q, RecvQueue: q, TxDepth: 32, SendCounter: sent,
			Protocol: efa.ProtocolConfig{RecvQueue: 4, SendQueue: 16, RNRRetry: -1},
		})
	}
	b, a = mk(), mk()
	introduce(t, a, b)
	return a, b, sent
}

// TestOrderOfWays: messages arrive in the order of the calls, and whole, whichever way
// each took: injected at once, injected into back-off, posted before, or long.
func TestOrderOfWays(t *testing.T) {
	a, b, sent := scarce(t)
	ctx := testContext(t)
	messages := less(3000)
	size := func(i int) int {
		switch {
		case i%50 == 49:
			return 300 << 10
		case i%10 == 9:
			return 20 << 10
		default:
			return 8 + i%60
		}
	}
	failed := make(chan error, 1)
	go func() {
		failed <- func() error {
			small := make([]byte, 128)
			for i := range messages {
				p := small
				if n := size(i); n > len(small) || i%7 == 6 {
					p = make([]byte, n)
				}
				p = p[:size(i)]
				binary.LittleEndian.PutUint64(p, uint64(i))
				p[len(p)-1] ^= byte(i)
				if cap(p) != len(small) {
					for {
						_, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: p, Quiet: true})
						if err == nil {
							break
						}
						runtime.Gosched()
					}
				} else if err := a.ep.Send(ctx, a.peer, p, efa.Inject); err != nil {
					return err
				}
				clear(small) // which is ours again
			}
			return nil
		}()
	}()
	buf := make([]byte, 300<<10)
	for i := range messages {
		m, err := b.ep.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, size(i), m.N, "message %d", i)
		want := make([]byte, 8)
		binary.LittleEndian.PutUint64(want, uint64(i))
		if m.N == 8 {
			want[7] ^= byte(i)
		} else {
			require.Equal(t, byte(i), buf[m.N-1])
		}
		require.Equal(t, want, buf[:8])
	}
	require.NoError(t, <-failed)
	require.NoError(t, a.ep.Shutdown(ctx))
	ok, bad := sent.Value()
	require.EqualValues(t, messages, ok)
	require.Zero(t, bad)
}

// TestManyInject: goroutines that inject to each other's endpoint and receive there, all
// of which may find that they can run the shard themselves.
func TestManyInject(t *testing.T) {
	a, b, _ := scarce(t)
	ctx := testContext(t)
	const workers, messages = 4, 500
	var all sync.WaitGroup
	errs := make(chan error, 4*workers)
	for w := range workers {
		for _, s := range []*side{a, b} {
			all.Go(func() {
				for i := range messages {
					p := [8]byte{byte(i), byte(i >> 8), byte(w)}
					if err := s.ep.SendTag(ctx, s.peer, uint64(w), p[:], efa.Inject); err != nil {
						errs <- err
						return
					}
				}
			})
			all.Go(func() {
				var p [8]byte
				for i := range messages {
					if _, err := s.ep.RecvTag(ctx, efa.Match{Tag: uint64(w)}, p[:]); err != nil {
						errs <- err
						return
					}
					if want := [8]byte{byte(i), byte(i >> 8), byte(w)}; p != want {
						t.Errorf("got %v instead of %v", p, want)
						return
					}
				}
			})
		}
	}
	within(t, "a worker", all.Wait)
	require.Empty(t, errs)
}
