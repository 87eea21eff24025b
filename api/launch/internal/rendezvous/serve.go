package rendezvous

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

// server accepts connections for a hub.
type server struct {
	hub   *hub
	l     net.Listener
	conns sync.WaitGroup // and the acceptor

	strangers strangers

	mu     sync.Mutex
	closed bool
}

// serve begins with rank 0 itself, which connects by own: another process that claims to
// be rank 0 must find it there.
func (h *hub) serve(l net.Listener, own net.Conn) *server {
	s := &server{hub: h, l: l}
	m := newMember(0, "this process", own)
	_ = h.enter(m) // it is the first
	s.conns.Go(func() { h.attend(m) })
	s.conns.Go(s.accept)
	return s
}

func (s *server) accept() {
	for {
		conn, err := s.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the caller has gone: both pass
			s.hub.complain("launch: accept", "error", err)
			full := errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
			if full && s.strangers.dropHalf() {
				continue
			}
			if !s.pause() {
				return
			}
			continue
		}
		s.strangers.add(conn, maxStrangers+s.hub.missing())
		s.conns.Go(func() {
			if m := s.greet(conn); m != nil {
				s.hub.attend(m)
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

// greet identifies a connection, and enters it as a member. nil: it is none.
func (s *server) greet(raw net.Conn) *member {
	from := raw.RemoteAddr().String()
	conn, hi, err := s.hear(raw, from)
	if s.strangers.remove(raw) {
		s.hub.refuse(from, errCrowded)
		return nil
	}
	if err == nil {
		err = s.misfit(hi, from)
	}
	if err == nil {
		_ = conn.SetDeadline(noDeadline)
		s.hub.found(conn)
		m := newMember(int(hi.rank), from, conn)
		if s.returns(m.rank) {
			err = errEarly
		} else if err = s.hub.enter(m); err == nil {
			return m
		}
		_ = conn.SetDeadline(clock.Deadline(s.hub.cfg.greet))
	}
	if errors.Is(err, errEarly) { // it does nothing wrong
		s.hub.complain("launch: a rank waits for the next board", "from", from, "reason", err)
	} else {
		s.hub.refuse(from, refusal(err))
	}
	s.answer(raw, conn, err)
	_ = conn.Close()
	return nil
}

// returns reports whether a rank that connects has taken leave of this board: it is early for
// the job's next one. Its BYE came by another connection and may be a little behind.
func (s *server) returns(rank int) bool {
	was := s.hub.former(rank)
	if was == nil {
		return false
	}
	bound := clock.NewTimer(byeTime)
	defer bound.Stop()
	select {
	case <-was.gone:
		return s.hub.former(rank) != nil // and the job has not failed by that
	case <-bound.C:
		return false
	}
}

// hear reads a HELLO. The connection is that which it came by, inside TLS if there is a
// secret.
func (s *server) hear(raw net.Conn, from string) (net.Conn, hello, error) {
	if t, ok := raw.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(keepAlive)
	}
	if !s.hub.cfg.beyond() && !loopback(from) { // only if the listener was given
		return raw, hello{}, ErrNotLocal
	}
	_ = raw.SetDeadline(clock.Deadline(s.hub.cfg.greet))
	conn := raw
	if s.hub.cfg.Server != nil {
		conn = tls.Server(raw, s.hub.cfg.Server)
	}
	hi, err := readHello(conn)
	return conn, hi, err
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

// answer sends the reason to a connection that is refused, as far as that is possible: one
// side may have a job secret and the other not.
func (s *server) answer(raw, conn net.Conn, err error) {
	var noTLS tls.RecordHeaderError
	var f *board.Failure
	switch {
	case errors.As(err, &noTLS):
		_, _ = raw.Write(abortFrame(board.Failed(board.Nobody, board.Mistake, "rank 0 has a job secret, this rank has none")))
	case errors.Is(err, errTLS):
		_, _ = raw.Write(abortFrame(board.Failed(board.Nobody, board.Mistake, "rank 0 has no job secret, this rank has one")))
	case errors.Is(err, errFrame):
		_, _ = conn.Write(abortFrame(board.Failed(board.Nobody, board.Mistake, "rank 0 does not understand this process: %v", err)))
	case errors.Is(err, errOther), errors.Is(err, errEarly):
		_, _ = conn.Write(newFrame(typeRefused, []byte(s.hub.cfg.Job)))
	case errors.As(err, &f):
		_, _ = conn.Write(abortFrame(f))
	}
}

// misfit returns the reason why a process cannot be a part of this job. The job of another
// version is not known. One that has proved to have the job's secret ends the job by a
// mistake, so that nobody waits for it; anybody else could send the same.
func (s *server) misfit(hi hello, from string) error {
	var f *board.Failure
	switch {
	case hi.version != version:
		return board.Failed(board.Nobody, board.Mistake, "a process at %s speaks version %d of the rendezvous, rank 0 version %d: not the same program?", from, hi.version, version)
	case hi.job != s.hub.cfg.Job:
		return fmt.Errorf("%w: %q, this is %q", errOther, printable([]byte(hi.job)), s.hub.cfg.Job)
	case int64(hi.size) != int64(s.hub.cfg.Size):
		of := board.Nobody // known here
		if int64(hi.rank) < int64(s.hub.cfg.Size) {
			of = int(hi.rank)
		}
		f = board.Failed(of, board.Mistake, "rank %d at %s says that there are %d ranks, rank 0 that there are %d", hi.rank, from, hi.size, s.hub.cfg.Size)
	case hi.rank >= hi.size:
		f = board.Failed(board.Nobody, board.Mistake, "a process at %s says that it is rank %d of %d", from, hi.rank, hi.size)
	default:
		return nil
	}
	if s.hub.cfg.Server != nil {
		s.hub.fail(f)
	}
	return f
}

// close waits a while for the others to say BYE, and for late ones to get the reason of
// a failure; then it ends every connection.
func (s *server) close() {
	bound := clock.NewTimer(s.hub.cfg.linger)
	defer bound.Stop()
	for s.hub.lingers() {
		select {
		case <-s.hub.changed:
			continue
		case <-bound.C:
		}
		break
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.strangers.close()
	_ = s.l.Close()
	s.dismiss()
	s.conns.Wait()
	s.hub.complainOfRest()
}

// dismiss bounds how long members take their leave.
func (s *server) dismiss() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, m := range s.hub.members {
		if m != nil && !m.left() {
			_ = m.conn.SetReadDeadline(clock.Deadline(s.hub.cfg.linger))
		}
	}
}

// listen opens rank 0's port. While it is in use it queries the listener: another
// process that claims to be rank 0, or a job that will end.
func listen(ctx context.Context, cfg *Config) (net.Listener, error) {
	where, err := listenAddr(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for pause, warned := firstPause, false; ; pause = min(2*pause, longestPause) {
		lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: cfg.control}
		l, err := lc.Listen(ctx, "tcp", where)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("rank 0: %w", err)
		}
		if f := occupied(ctx, cfg); f != nil {
			return nil, f
		}
		if !warned {
			warned = true
			cfg.Logger.Warn("launch: the port of the rendezvous is in use, waiting", "addr", where)
		}
		t := clock.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("rank 0 could not open the rendezvous: %w (%w)", context.Cause(ctx), err)
		}
	}
}

// occupied queries the listener of the port; not nil if it is this very job.
func occupied(ctx context.Context, cfg *Config) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := attempt(ctx, cfg)
	if err == nil { // rank 0 would have said that it is rank 0
		_ = conn.Close()
		return nil
	}
	var f *board.Failure
	if errors.As(err, &f) && f.Kind == board.Mistake {
		return f
	}
	return nil
}

// listenAddr is where to listen: all addresses of this host, unless it is only for this
// host. Names are not looked up if they need not be, since a host may know itself by a
// name that leads others elsewhere, 127.0.1.1 for one.
func listenAddr(ctx context.Context, cfg *Config) (string, error) {
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return "", fmt.Errorf("rendezvous: %w", err)
	}
	ip := net.ParseIP(host)
	switch {
	case ip != nil && ip.IsLoopback(), host == "localhost":
		return cfg.Addr, nil
	case cfg.beyond():
		return net.JoinHostPort("", port), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotLocal, err)
	}
	for _, ip := range ips {
		if ip.IsLoopback() {
			return net.JoinHostPort(ip.Unmap().String(), port), nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrNotLocal, cfg.Addr)
}

// maxStrangers is how many connections may be open without a valid HELLO, besides one for
// each rank that is missing.
const maxStrangers = 256

// errCrowded is why a stranger was dropped.
var errCrowded = errors.New("it did not say who it is before many others called")

// strangers are the connections that have not said yet who they are, oldest first. When
// there are too many the oldest goes: a rank says HELLO within a round trip, and calls again
// if it was dropped.
type strangers struct {
	mu     sync.Mutex
	list   []net.Conn
	closed bool
}

// add keeps a connection in mind, and drops the oldest if there are more than most.
func (s *strangers) add(conn net.Conn, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, conn)
	if s.closed {
		_ = conn.Close()
	} else if len(s.list) > most {
		s.dropLocked(len(s.list) - most)
	}
}

// remove forgets a connection, and reports whether it was dropped before.
func (s *strangers) remove(conn net.Conn) (dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.list, conn)
	if i < 0 {
		return true
	}
	s.list = slices.Delete(s.list, i, i+1)
	return false
}

// dropHalf makes room for a process that is out of descriptors, and reports whether there
// was one to drop.
func (s *strangers) dropHalf() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := (len(s.list) + 1) / 2
	s.dropLocked(n)
	return n > 0
}

func (s *strangers) dropLocked(n int) {
	for _, conn := range s.list[:n] {
		_ = conn.Close()
	}
	s.list = slices.Delete(s.list, 0, n)
}

// close ends all, and all that come later.
func (s *strangers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, conn := range s.list {
		_ = conn.Close()
	}
}
