package rendezvous

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

// maxStrangers bounds the open connections without a valid HELLO.
const maxStrangers = 256

// server accepts connections for a hub.
type server struct {
	*hub
	l     net.Listener
	conns sync.WaitGroup // and the acceptor

	mu        sync.Mutex
	strangers map[net.Conn]bool
	closed    bool
	local     net.Addr // where the first other rank found us
}

// serve begins with rank 0 itself, which connects by own: another process that claims to
// be rank 0 must find it there.
func serve(h *hub, l net.Listener, own net.Conn) *server {
	s := &server{hub: h, l: l, strangers: make(map[net.Conn]bool)}
	m := newMember(0, "this process", own)
	h.enter(m)
	s.conns.Go(func() { h.attend(m) })
	s.conns.Go(s.accept)
	return s
}

func (s *server) accept() {
	room := make(chan struct{}, maxStrangers)
	for {
		conn, err := s.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the caller has gone: both pass
			s.log.Warn("launch: accept", "error", err)
			if !s.pause() {
				return
			}
			continue
		}
		room <- struct{}{}
		s.conns.Go(func() {
			m := s.greet(conn)
			<-room
			if m != nil {
				s.enter(m)
				s.attend(m)
			}
		})
	}
}

// pause waits a moment, and reports whether the server goes on.
func (s *server) pause() bool {
	t := clock.NewTimer(firstPause)
	defer t.Stop()
	<-t.C
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed
}

// stranger keeps a connection in mind until it is known, so that Close ends it.
func (s *server) stranger(conn net.Conn, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !is {
		delete(s.strangers, conn)
		return
	}
	s.strangers[conn] = true
	if s.closed {
		_ = conn.Close()
	}
}

// greet identifies a connection. nil: it is none of ours.
func (s *server) greet(conn net.Conn) *member {
	s.stranger(conn, true)
	defer s.stranger(conn, false)
	from := conn.RemoteAddr().String()
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(keepAlive)
	}
	if !s.cfg.beyond() && !loopback(from) { // only if the listener was given
		s.refuse(from, ErrNotLocal)
		_ = conn.Close()
		return nil
	}
	_ = conn.SetDeadline(clock.Deadline(greetTime))
	raw := conn
	if s.cfg.Server != nil {
		conn = tls.Server(conn, s.cfg.Server)
	}
	hi, err := readHello(conn)
	switch {
	case err != nil:
		s.refuse(from, refusal(err))
		s.answer(raw, conn, err)
		_ = conn.Close()
		return nil
	case hi.version == version && hi.job != s.cfg.Job:
		s.refuse(from, fmt.Errorf("it is of job %q, this is %q", printable([]byte(hi.job)), s.cfg.Job))
		_, _ = conn.Write(newFrame(typeRefused, []byte(s.cfg.Job)))
		_ = conn.Close()
		return nil
	}
	if f := s.misfit(hi, from); f != nil {
		_, _ = conn.Write(abortFrame(f))
		_ = conn.Close()
		s.fail(f)
		return nil
	}
	_ = conn.SetDeadline(noDeadline)
	s.found(conn.LocalAddr())
	return newMember(int(hi.rank), from, conn)
}

// refusal says in other words what TLS has to say about secrets.
func refusal(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" { // it refused our certificate
		return fmt.Errorf("it has another job secret: %w", err)
	}
	return err
}

func readHello(conn net.Conn) (hello, error) {
	typ, rest, err := readFrame(conn, maxSmall)
	if err != nil {
		return hello{}, err
	}
	if typ != typeHello {
		return hello{}, malformed("type %d instead of HELLO", typ)
	}
	return parseHello(rest)
}

// answer sends the reason to a connection without a proper HELLO, as far as that is
// possible: one side may have a job secret and the other not.
func (s *server) answer(raw, conn net.Conn, err error) {
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &noTLS):
		_, _ = raw.Write(abortFrame(board.Failed(board.Nobody, board.Mistake, "rank 0 has a job secret, this rank has none")))
	case errors.Is(err, errTLS):
		_, _ = raw.Write(abortFrame(board.Failed(board.Nobody, board.Mistake, "rank 0 has no job secret, this rank has one")))
	case errors.Is(err, errFrame):
		_, _ = conn.Write(abortFrame(board.Failed(board.Nobody, board.Mistake, "rank 0 does not understand this process: %v", err)))
	}
}

// misfit returns the reason why a process of this job cannot be a part of it.
func (s *server) misfit(hi hello, from string) *board.Failure {
	switch {
	case hi.version != version:
		return board.Failed(board.Nobody, board.Mistake, "a process at %s speaks version %d of the rendezvous, rank 0 version %d: not the same program?", from, hi.version, version)
	case int64(hi.size) != int64(s.cfg.Size):
		of := board.Nobody // known here
		if int64(hi.rank) < int64(s.cfg.Size) {
			of = int(hi.rank)
		}
		return board.Failed(of, board.Mistake, "rank %d at %s says that there are %d ranks, rank 0 that there are %d", hi.rank, from, hi.size, s.cfg.Size)
	case hi.rank >= hi.size:
		return board.Failed(board.Nobody, board.Mistake, "a process at %s says that it is rank %d of %d", from, hi.rank, hi.size)
	}
	return nil
}

// found notes an address that leads here, best one that leads here from other hosts.
func (s *server) found(a net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local == nil || loopback(s.local.String()) {
		s.local = a
	}
}

// close waits a while for the others to say BYE, and for late ones to get the reason of
// a failure; then it ends every connection.
func (s *server) close() {
	bound := clock.NewTimer(s.cfg.linger)
	defer bound.Stop()
	for s.lingers() {
		select {
		case <-s.changed:
			continue
		case <-bound.C:
		}
		break
	}
	s.mu.Lock()
	s.closed = true
	for conn := range s.strangers {
		_ = conn.Close()
	}
	s.mu.Unlock()
	_ = s.l.Close()
	s.dismiss()
	s.conns.Wait()
}

// dismiss bounds how long members take their leave.
func (s *server) dismiss() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, m := range s.members {
		if m != nil && !m.left {
			_ = m.conn.SetReadDeadline(clock.Deadline(s.cfg.linger))
		}
	}
}
