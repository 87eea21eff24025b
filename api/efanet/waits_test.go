package efanet_test

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// saw waits for a frame of the connection's, and leaves it where it is.
func (s *stranger) saw(lane uint64) {
	_, err := s.ep.PeekTag(soon(s.t), efa.Match{Tag: tag(lane, strangersID)}, efa.Wait)
	require.NoError(s.t, err)
}

// got is saw, and takes the frame.
func (s *stranger) got(lane uint64) {
	d, err := s.ep.NextTag(soon(s.t), efa.Match{Tag: tag(lane, strangersID)})
	require.NoError(s.t, err)
	d.Release()
}

// idlers are other sides that live, and leave a call waiting: each has a call wait, and returns when
// it does.
var idlers = map[string]struct {
	reads bool // it is Read that waits
	until func(s *stranger)
}{
	"never grants": {until: func(s *stranger) { s.saw(2) }},
	"grants and never receives": {until: func(s *stranger) {
		s.got(2)
		s.send(4, s.id, kGrant<<56|1<<40|1<<20, nil)
		s.saw(3)
	}},
	"grants a part and never receives": {until: func(s *stranger) {
		s.got(2)
		s.send(4, s.id, kGrant<<56|1<<40|100_000, nil)
		s.saw(3)
	}},
	"receives and grants no more": {until: func(s *stranger) {
		s.got(2)
		s.send(4, s.id, kGrant<<56|1<<40|100_000, nil)
		s.got(3)
	}},
	"never sends": {reads: true, until: func(*stranger) {}},
	"offers and never sends": {reads: true, until: func(s *stranger) {
		s.send(2, s.id, kOffer<<56|1<<40|1<<20, nil)
		s.saw(4)
	}},
}

// enders are what ends a call that waits, and the error of the call.
var enders = map[string]struct {
	reads, writes error
	end           func(*stranger) error
}{
	"deadline": {os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, func(s *stranger) error { return s.conn.SetDeadline(time.Unix(1, 0)) }},
	"moved deadline": {os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, func(s *stranger) error {
		for _, t := range []time.Time{{}, clock.Deadline(time.Hour), {}} {
			if err := s.conn.SetDeadline(t); err != nil {
				return err
			}
		}
		return s.conn.SetDeadline(time.Unix(1, 0))
	}},
	"half":  {io.EOF, syscall.EPIPE, func(s *stranger) error { return halves(s.conn) }},
	"Close": {net.ErrClosed, net.ErrClosed, func(s *stranger) error { return s.conn.Close() }},
}

func halves(c net.Conn) error {
	if err := c.(conn).CloseRead(); err != nil {
		return err
	}
	return c.(conn).CloseWrite()
}

// TestWaitsEnd: what the other side does or leaves undone, a call that waits for it ends by its deadline,
// also one that is moved meanwhile, by CloseRead or CloseWrite, and by Close, and so does Close.
func TestWaitsEnd(t *testing.T) {
	for on, idler := range idlers {
		for by, ender := range enders {
			t.Run(on+"/"+by, func(t *testing.T) {
				t.Parallel() // Close waits for a while
				s := newStranger(t)
				ended := make(chan error, 1)
				want := ender.writes
				if idler.reads {
					want = ender.reads
					go func() {
						_, err := s.conn.Read(make([]byte, 1<<20))
						ended <- err
					}()
				} else {
					go func() {
						_, err := s.conn.Write(make([]byte, 1<<20))
						ended <- err
					}()
				}
				idler.until(s)
				began := clock.System.Now()
				closed := make(chan error, 1)
				go func() { closed <- ender.end(s) }() // which may wait longer than the call
				var err error
				select {
				case err = <-ended:
				case <-clock.NewTimer(testenv.Hang).C:
					t.Fatal("the call still waits")
				}
				if testenv.All() {
					require.Less(t, clock.System.Now().Sub(began), 100*time.Millisecond)
				}
				require.ErrorIs(t, err, want)
				require.NoError(t, <-closed)
			})
		}
	}
}

// leaveBehind has the other side grant a megabyte of the Write that it reads from the stream, and the Write's
// deadline pass once the transfer has begun, in which the copies of that many are before it.
func (s *stranger) leaveBehind(seq uint64, before int) error {
	require.NoError(s.t, s.conn.SetWriteDeadline(time.Time{}))
	ended := make(chan error, 1)
	go func() {
		_, err := s.conn.Write(make([]byte, 1<<20))
		ended <- err
	}()
	s.got(2)
	s.send(4, s.id, kGrant<<56|seq<<40|1<<20, nil)
	require.Eventually(s.t, func() bool {
		n, err := s.ep.Snapshot(soon(s.t))
		return err == nil && n.Queues.Unexpected > before
	}, testenv.Hang, time.Millisecond)
	require.NoError(s.t, s.conn.SetWriteDeadline(time.Unix(1, 0)))
	return <-ended
}

// TestLeftBehind: writes that their deadlines end in a transfer leave copies, as many as there are, which
// the reader gets, one after the other or later.
func TestLeftBehind(t *testing.T) {
	for _, takes := range []bool{true, false} {
		s := newStranger(t)
		before := 0
		for seq := range uint64(6) {
			require.ErrorIs(t, s.leaveBehind(seq+1, before), os.ErrDeadlineExceeded)
			if takes {
				s.got(3)
			} else {
				before++
			}
		}
		for range before {
			s.got(3)
		}
	}
}

// TestEndBehindCopies: the end of a connection of which the other side takes nothing holds up no other one, and
// arrives at once.
func TestEndBehindCopies(t *testing.T) {
	s := newStranger(t)
	require.ErrorIs(t, s.leaveBehind(1, 0), os.ErrDeadlineExceeded)
	s.send(1, 0, kOpen<<56|1, opening(s.ep, strangersID+1, 1<<20))
	other, err := s.listener.Accept()
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, s.conn.(conn).CloseWrite())
	d, err := s.ep.NextTag(soon(t), efa.Match{Tag: tag(2, strangersID)})
	require.NoError(t, err)
	require.Equal(t, uint64(kFin), d.Data>>56)
	d.Release()
	_, err = other.Write([]byte("word"))
	require.NoError(t, err)
	d, err = s.ep.NextTag(soon(t), efa.Match{Tag: tag(2, strangersID+1)})
	require.NoError(t, err)
	require.Equal(t, "word", string(d.Body))
	d.Release()
}
