package efanet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// TestSmallWrites: of writes of any size a connection takes 128 KiB before anything is read, but for what
// frames of the last ones cost, and all of it is read, also with a long write behind it.
func TestSmallWrites(t *testing.T) {
	l := listen(t, efanet.ListenConfig{})
	for _, c := range []struct{ size, times int }{{1, 3000}, {20, 1000}, {100, 1250}, {1000, 125}, {4000, 31}} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			a, b := dial(t, l)
			p := random(c.size * c.times)
			for at := 0; at < len(p); at += c.size {
				n, err := a.Write(p[at : at+c.size])
				require.NoError(t, err)
				require.Equal(t, c.size, n)
			}
			long := random(300_000)
			var writing sync.WaitGroup
			writing.Go(func() {
				_, err := a.Write(long)
				assert.NoError(t, err)
				_, err = a.Write([]byte("the end"))
				assert.NoError(t, err)
				assert.NoError(t, a.CloseWrite())
			})
			got, err := io.ReadAll(struct{ io.Reader }{b})
			require.NoError(t, err)
			writing.Wait()
			require.True(t, bytes.Equal(append(append(p, long...), "the end"...), got))
		})
	}
}

// TestWindowIsFull: what is joined counts as well: a connection does not take more than 128 KiB.
func TestWindowIsFull(t *testing.T) {
	a, b := dial(t, listen(t, efanet.ListenConfig{}))
	full := make(chan int)
	go func() {
		sent := 0
		for {
			n, err := a.Write(make([]byte, 1000))
			if sent += n; err != nil {
				assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
				full <- sent
				return
			}
		}
	}()
	// What it has beyond the window is held back until something is read.
	require.NoError(t, a.SetWriteDeadline(clock.Deadline(200*time.Millisecond)))
	sent := <-full
	require.LessOrEqual(t, sent, 128<<10)
	require.NoError(t, a.SetWriteDeadline(time.Time{}))
	_, err := io.ReadFull(b, make([]byte, sent))
	require.NoError(t, err)
	_, err = a.Write(make([]byte, 60_000))
	require.NoError(t, err)
}

// TestRequestsAhead: hundreds of requests are written before an answer is read, to a side that writes
// an answer before it reads the next request.
func TestRequestsAhead(t *testing.T) {
	a, b := dial(t, listen(t, efanet.ListenConfig{}))
	const times, size = 500, 20
	var serving sync.WaitGroup
	serving.Go(func() {
		p := make([]byte, size)
		for range times {
			_, err := io.ReadFull(b, p)
			assert.NoError(t, err)
			_, err = b.Write(p)
			assert.NoError(t, err)
		}
	})
	p := random(times * size)
	for at := 0; at < len(p); at += size {
		_, err := a.Write(p[at : at+size])
		require.NoError(t, err)
	}
	got := make([]byte, len(p))
	_, err := io.ReadFull(a, got)
	require.NoError(t, err)
	serving.Wait()
	require.True(t, bytes.Equal(p, got))
}

// TestPress: PRESS that says nothing new, or is for connections that the sender does not have, does nothing,
// and a reader that does not join is not asked to.
func TestPress(t *testing.T) {
	s := newStranger(t)
	a, b := dial(t, s.listener)
	for id := range uint64(20) {
		s.send(5, 0, kPress<<56|(id+1), nil) // some are the ids of a and b
	}
	s.send(2, s.id, kData<<56, []byte("word"))
	s.send(5, 0, kPress<<56|s.id, nil)
	s.send(5, 0, kPress<<56|s.id, nil)
	p := make([]byte, 4)
	_, err := io.ReadFull(s.conn, p)
	require.NoError(t, err)
	require.Equal(t, "word", string(p))
	_, err = a.Write(p)
	require.NoError(t, err)
	_, err = io.ReadFull(b, p)
	require.NoError(t, err)

	require.NoError(t, s.conn.SetWriteDeadline(clock.Deadline(time.Millisecond)))
	for err == nil {
		_, err = s.conn.Write(p)
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, err = s.ep.PeekTag(soon(t), efa.Match{Tag: tag(5, 0)})
	require.ErrorIs(t, err, efa.ErrNoMessage)
}

// TestPressed: a violation that joining finds ends the connection, and the end of the stream behind what was
// joined is not read before that.
func TestPressed(t *testing.T) {
	for name, last := range map[string]uint64{"end": kFin<<56 | 4, "hole": kFin<<56 | 9, "reset": kReset << 56} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t)
			s.send(2, s.id, kData<<56, []byte("wo"))
			s.send(2, s.id, kData<<56|2, []byte("rd"))
			s.send(2, s.id, last, nil)
			s.send(5, 0, kPress<<56|s.id, nil)
			if name == "hole" {
				d, err := s.ep.NextTag(soon(t), efa.Match{Tag: tag(2, strangersID)})
				require.NoError(t, err)
				require.Equal(t, uint64(kReset), d.Data>>56)
				d.Release()
				return
			}
			d, err := s.ep.NextTag(soon(t), efa.Match{Tag: tag(4, strangersID)}) // once it has joined
			require.NoError(t, err)
			d.Release()
			p := make([]byte, 4)
			_, err = io.ReadFull(s.conn, p)
			require.NoError(t, err)
			require.Equal(t, "word", string(p))
			_, err = s.conn.Read(p)
			require.Error(t, err)
			require.Equal(t, name == "end", errors.Is(err, io.EOF))
		})
	}
}

// TestCreditWithTheAnswer: what a request of 64 KiB has used comes back with the answer, in one frame. A frame in the middle of the
// request would wake a side that waits for the answer. A side that writes nothing gives back by the quarter.
func TestCreditWithTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answers bool
		frames  int
	}{"answers": {true, 1}, "reads on": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t)
			if c.answers {
				_, err := s.conn.Write([]byte("ready"))
				require.NoError(t, err)
				s.got(2)
			}
			const frames, size = 16, 4000
			for i := range uint64(frames) {
				s.send(2, s.id, kData<<56|i*size, make([]byte, size))
			}
			_, err := io.ReadFull(s.conn, make([]byte, frames*size))
			require.NoError(t, err)
			_, err = s.conn.Write([]byte("answer"))
			require.NoError(t, err)
			s.got(2) // credit that was given before has come
			var credit, n int
			for more := true; more; n++ {
				d, err := s.ep.NextTag(soon(t), efa.Match{Tag: tag(4, strangersID)}, efa.From(s.to))
				require.NoError(t, err)
				require.Equal(t, uint64(kCredit), d.Data>>56)
				credit += int(d.Data & (1<<56 - 1))
				d.Release()
				_, err = s.ep.PeekTag(soon(t), efa.Match{Tag: tag(4, strangersID)})
				require.True(t, err == nil || errors.Is(err, efa.ErrNoMessage))
				more = err == nil
			}
			require.Equal(t, c.frames, n)
			if c.answers {
				require.Equal(t, frames*(2048+4096), credit)
			}
		})
	}
}

// TestPartRead: a writer that a full window holds up goes on once the reader has read a part of what has come, also
// if that is less than what is given back at a time.
func TestPartRead(t *testing.T) {
	a, b := dial(t, listen(t, efanet.ListenConfig{}))
	var pressed bool
	for n := 0; !pressed; n++ { // until PRESS has given nothing
		require.NoError(t, a.SetWriteDeadline(clock.Deadline(200*time.Millisecond)))
		_, err := a.Write(make([]byte, 100))
		pressed = errors.Is(err, os.ErrDeadlineExceeded)
		require.True(t, pressed || err == nil)
	}
	_, err := io.ReadFull(b, make([]byte, 31<<10))
	require.NoError(t, err)
	require.NoError(t, a.SetWriteDeadline(clock.Deadline(testenv.Hang)))
	_, err = a.Write(make([]byte, 100))
	require.NoError(t, err)
}
