package efanet_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/runtime/clock"
)

// The frames as the other side of the wire sees them; see docs/efanet.md.
func tag(lane, id uint64) uint64 { return 0xEF<<56 | lane<<48 | id }

const (
	kOpen = iota + 1
	kAccept
	kRefuse
	kData
	kOffer
	kBulk
	kWithdraw
	kFin
	kReset
	kCredit
	kGrant
	kStop
	kPing
	kGone
	kPress
)

func sender(t *testing.T, d *efa.Delivery) efa.Address {
	a, err := efa.ParseAddress(string(d.Body[20:]))
	require.NoError(t, err)
	return a
}

// stranger is a side that keeps to no protocol, with a connection to a listener.
type stranger struct {
	t        *testing.T
	ep       *efa.Endpoint
	listener net.Listener
	to       efa.Addr
	id       uint64 // the listener's
	epoch    uint64 // the listener's
	conn     net.Conn
}

const (
	strangersID    = 77
	strangersEpoch = 5
)

func opening(ep *efa.Endpoint, id uint64, window uint32) []byte {
	return openingIn(ep, id, window, strangersEpoch)
}

func openingIn(ep *efa.Endpoint, id uint64, window uint32, epoch uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, id)
	b = binary.LittleEndian.AppendUint32(b, window)
	b = binary.LittleEndian.AppendUint64(b, epoch)
	return append(b, ep.Address().String()...)
}

func newStranger(t *testing.T) *stranger { return newStrangerOn(t, efanet.ListenConfig{}) }

func newStrangerOn(t *testing.T, cfg efanet.ListenConfig) *stranger {
	s := &stranger{t: t, ep: endpoint(t), listener: listen(t, cfg)}
	a, err := efa.ParseAddress(s.listener.Addr().String())
	require.NoError(t, err)
	s.to, err = s.ep.AddressVector().Insert(a)
	require.NoError(t, err)
	s.send(1, 0, kOpen<<56|1, opening(s.ep, strangersID, 1<<20))
	d, err := s.ep.NextTag(soon(t), efa.Match{Tag: tag(4, strangersID)})
	require.NoError(t, err)
	require.Equal(t, uint64(kAccept), d.Data>>56)
	s.id = d.Data & (1<<48 - 1)
	s.epoch = binary.LittleEndian.Uint64(d.Body[4:])
	d.Release()
	s.conn, err = s.listener.Accept()
	require.NoError(t, err)
	require.NoError(t, s.conn.SetDeadline(clock.Deadline(time.Minute)))
	t.Cleanup(func() {
		s.send(2, s.id, kFin<<56, nil)
		s.send(4, s.id, kStop<<56, nil)
		defer s.answer()()
		_ = s.conn.Close()
	})
	return s
}

// answer takes what the listener's side asks, until done: it asks whether the end has come, and otherwise its Close waits
// in vain and goes on behind the test.
func (s *stranger) answer() (done func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var taking sync.WaitGroup
	taking.Go(func() {
		for {
			d, err := s.ep.NextTag(ctx, efa.Match{Tag: tag(1, 0)})
			if err != nil {
				return
			}
			d.Release()
		}
	})
	return func() {
		cancel()
		taking.Wait()
	}
}

func (s *stranger) send(lane, id, data uint64, body []byte) {
	require.NoError(s.t, s.ep.SendTag(soon(s.t), s.to, tag(lane, id), body, efa.Data(data)))
}

// quiet checks that nothing has come for the stranger's connection.
func (s *stranger) quiet() {
	for _, lane := range []uint64{2, 3, 4} {
		_, err := s.ep.PeekTag(soon(s.t), efa.Match{Tag: tag(lane, strangersID)})
		require.ErrorIs(s.t, err, efa.ErrNoMessage)
	}
}

// TestHostileReader: frames to a reader that break the protocol end the connection.
func TestHostileReader(t *testing.T) {
	for name, f := range map[string]func(s *stranger){
		"kind":         func(s *stranger) { s.send(2, s.id, 99<<56, nil) },
		"no head":      func(s *stranger) { s.send(2, s.id, 0, nil) },
		"other lane":   func(s *stranger) { s.send(2, s.id, kCredit<<56|1, nil) },
		"empty":        func(s *stranger) { s.send(2, s.id, kData<<56, nil) },
		"long":         func(s *stranger) { s.send(2, s.id, kData<<56, make([]byte, 4097)) },
		"a hole":       func(s *stranger) { s.send(2, s.id, kData<<56|1, []byte("ello")) },
		"no end":       func(s *stranger) { s.send(2, s.id, kFin<<56|5, nil) },
		"offer of 0":   func(s *stranger) { s.send(2, s.id, kOffer<<56, nil) },
		"offer of all": func(s *stranger) { s.send(2, s.id, kOffer<<56|1<<39, nil) },
		"short bulk": func(s *stranger) {
			s.send(2, s.id, kOffer<<56|100_000, nil)
			s.send(3, s.id, kBulk<<56, []byte("less"))
		},
		"another's bulk": func(s *stranger) {
			s.send(2, s.id, kOffer<<56|100_000, nil)
			s.send(3, s.id, kWithdraw<<56|5<<40, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t)
			f(s)
			_, err := s.conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, syscall.ECONNRESET)
			d, err := s.ep.NextTag(soon(t), efa.Match{Tag: tag(2, strangersID)})
			require.NoError(t, err)
			require.Equal(t, uint64(kReset), d.Data>>56)
			d.Release()
		})
	}
}

// TestHostileLong: a frame that is too long even to be received ends the connection, and the
// endpoint goes on.
func TestHostileLong(t *testing.T) {
	for name, lane := range map[string]uint64{"reader": 2, "writer": 4} {
		t.Run(name, func(t *testing.T) {
			s := newStrangerOn(t, efanet.ListenConfig{Setup: &efa.Setup{Endpoint: efa.EndpointConfig{NextMemory: 1 << 20}}})
			sent := make(chan error)
			go func() { sent <- s.ep.SendTag(soon(t), s.to, tag(lane, s.id), make([]byte, 3<<20), efa.Data(kData<<56)) }()
			var err error
			if name == "reader" {
				_, err = s.conn.Read(make([]byte, 1))
			} else {
				_, err = s.conn.Write(make([]byte, 2<<20)) // more than there is credit for
			}
			require.ErrorIs(t, err, syscall.ECONNRESET)
			require.NoError(t, <-sent)
			dial(t, s.listener)
		})
	}
}

// TestHostileWriter: frames to a writer that break the protocol end the connection.
func TestHostileWriter(t *testing.T) {
	for name, data := range map[string]uint64{
		"kind":           99 << 56,
		"too much":       kCredit<<56 | 100,
		"no credit":      kCredit << 56,
		"more":           kGrant<<56 | 1<<40 | 2<<20,
		"grant of 0":     kGrant<<56 | 1<<40,
		"grant of all":   kGrant<<56 | 1<<40 | 1<<39,
		"another accept": kAccept<<56 | 1,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t)
			if name == "too much" { // of what it has given already, with none in use
				s.send(4, s.id, kCredit<<56|1<<17, nil)
			}
			s.send(4, s.id, data, nil)
			n, err := s.conn.Write(make([]byte, 1<<20))
			require.ErrorIs(t, err, syscall.ECONNRESET)
			require.Zero(t, n)
		})
	}
}

// TestNoCredit: a reader that gives none holds up its own connection, until the deadline.
func TestNoCredit(t *testing.T) {
	s := newStranger(t)
	for range 1 << 20 / (1024 + 2048) { // as much as the stranger's window takes
		_, err := s.conn.Write(make([]byte, 1000))
		require.NoError(t, err)
	}
	require.NoError(t, s.conn.SetWriteDeadline(clock.Deadline(time.Millisecond)))
	n, err := s.conn.Write(make([]byte, 1000))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Zero(t, n)
	a, b := dial(t, s.listener)
	_, err = a.Write([]byte("word"))
	require.NoError(t, err)
	_, err = io.ReadFull(b, make([]byte, 4))
	require.NoError(t, err)
}

// TestHostileOpen: an OPEN that cannot be, one with an address of somebody else, and frames to
// ids that nobody has do nothing; the listener goes on.
func TestHostileOpen(t *testing.T) {
	s := newStranger(t)
	other := endpoint(t)
	for _, body := range [][]byte{
		nil, make([]byte, 11), make([]byte, 4096), make([]byte, 100_000),
		opening(s.ep, 0, 1<<20), opening(s.ep, 1<<48, 1<<20), opening(s.ep, 5, 0), opening(s.ep, 5, 1<<31),
		opening(other, 5, 1<<20), openingIn(s.ep, 5, 1<<20, 0), openingIn(s.ep, 5, 1<<20, 1<<56),
	} {
		s.send(1, 0, kOpen<<56|1, body)
	}
	s.send(1, 0, kOpen<<56|2, opening(s.ep, 5, 1<<20))
	s.send(1, 0, kCredit<<56|1, opening(s.ep, 5, 1<<20))
	for lane := range uint64(8) {
		s.send(lane, 1<<40, kData<<56, []byte("to nobody"))
	}
	dial(t, s.listener)
	_, err := s.ep.PeekTag(soon(t), efa.Match{Tag: tag(4, 5)})
	require.ErrorIs(t, err, efa.ErrNoMessage)
}
