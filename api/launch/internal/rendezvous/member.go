package rendezvous

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

// member is a rank, as the hub sees it.
type member struct {
	rank int
	from string
	conn net.Conn
	out  chan []byte   // to its writer; the hub's lock guards sending and closing
	done bool          // out is closed
	told chan struct{} // closed when all of out has been written, or cannot be
	gone chan struct{} // closed when it has left

	waits bool // at a fence; guarded by the hub
}

// backlog is how many frames may wait for a member that obeys the protocol: WELCOME,
// RESULT, ABORT.
const backlog = 4

func newMember(rank int, from string, conn net.Conn) *member {
	return &member{rank: rank, from: from, conn: conn, out: make(chan []byte, backlog), told: make(chan struct{}), gone: make(chan struct{})}
}

// left reports whether the member's connection has ended.
func (m *member) left() bool {
	select {
	case <-m.gone:
		return true
	default:
		return false
	}
}

// send leaves a frame to the writer.
func (m *member) send(frame []byte) {
	if m.done {
		return
	}
	select {
	case m.out <- frame:
	default: // asks and does not listen
		m.done = true
		close(m.out)
	}
}

// end sends the reason of the failure as the last frame to the member.
func (m *member) end(f *board.Failure) {
	m.send(abortFrame(f))
	if !m.done {
		m.done = true
		close(m.out)
	}
}

// write writes frames, and then ends the direction to the member: that will read
// everything.
func (m *member) write() {
	defer close(m.told)
	ok := true
	for frame := range m.out {
		if ok {
			_ = m.conn.SetWriteDeadline(clock.Deadline(writeTime))
			_, err := m.conn.Write(frame)
			ok = err == nil
		}
	}
	if half, can := m.conn.(interface{ CloseWrite() error }); can && ok {
		_ = half.CloseWrite()
	}
	_ = m.conn.SetReadDeadline(clock.Deadline(byeTime))
}

// attend runs the connection of a member that has entered to its end.
func (h *hub) attend(m *member) {
	var writer sync.WaitGroup
	writer.Go(m.write)
	for {
		typ, rest, err := readFrame(m.conn, maxFence)
		if err != nil {
			h.leave(m, cause(err))
			break
		}
		if typ == typeBye {
			h.leave(m, nil)
			break
		}
		if f := h.handle(m, typ, rest); f != nil {
			h.fail(f)
		}
	}
	h.mu.Lock()
	if !m.done {
		m.done = true
		close(m.out)
	}
	h.mu.Unlock()
	writer.Wait()
	_ = m.conn.Close()
}

// handle returns why the job is over, if it is.
func (h *hub) handle(m *member, typ byte, rest []byte) *board.Failure {
	switch typ {
	case typeFence:
		number, entries, err := parseNumbered(rest)
		if err != nil {
			return board.Failed(m.rank, board.Other, "rank %d: %v", m.rank, err)
		}
		return h.atFence(m, number, entries)
	case typeLate:
		number, _, err := parseNumbered(rest)
		if err != nil {
			return board.Failed(m.rank, board.Other, "rank %d: %v", m.rank, err)
		}
		return h.late(number)
	case typeAbort:
		f, err := parseAbort(rest, len(h.members))
		if err != nil {
			return board.Failed(m.rank, board.Other, "rank %d: %v", m.rank, err)
		}
		f.Rank = m.rank // it can only give up for itself
		return f
	default:
		return board.Failed(m.rank, board.Other, "rank %d sent a frame of type %d", m.rank, typ)
	}
}

// cause is an error of a connection without the addresses that its net.OpError repeats.
func cause(err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("connection closed")
	case errors.As(err, &op):
		return op.Err
	}
	return err
}
