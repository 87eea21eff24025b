package efa_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

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
