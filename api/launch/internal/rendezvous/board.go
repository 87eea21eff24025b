package rendezvous

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

// Board is this process's connection to the rendezvous, and in rank 0 the rendezvous
// itself. One goroutine at a time uses it.
type Board struct {
	cfg    Config
	server *server // rank 0
	conn   net.Conn
	frames chan frame // from the reader, which ends with the connection
	reader sync.WaitGroup

	fence   uint32
	pending []byte
	values  map[string][]byte
	failed  error
	closed  bool
}

type frame struct {
	typ  byte
	rest []byte
	err  error
}

// Join connects to the rendezvous. In rank 0 it opens it, and does not wait for others.
func Join(ctx context.Context, cfg Config) (*Board, error) {
	b := &Board{cfg: cfg, values: make(map[string][]byte), frames: make(chan frame, backlog)}
	if err := b.cfg.check(); err != nil {
		return nil, err
	}
	var err error
	if cfg.Rank > 0 {
		b.conn, err = dial(ctx, &b.cfg)
	} else {
		err = b.open(ctx)
	}
	if err != nil {
		return nil, err
	}
	b.reader.Go(b.read)
	return b, nil
}

// open makes this process the hub, and a member of it.
func (b *Board) open(ctx context.Context) error {
	l := b.cfg.Listener
	if l == nil {
		var err error
		if l, err = listen(ctx, &b.cfg); err != nil {
			return err
		}
	}
	ours, theirs := net.Pipe()
	b.conn = ours
	b.server = newHub(&b.cfg).serve(l, theirs)
	return nil
}

// read passes frames on, up to the end.
func (b *Board) read() {
	for {
		typ, rest, err := readFrame(b.conn, maxResult+4)
		if err == nil && typ == typeWelcome { // of rank 0 itself
			continue
		}
		select {
		case b.frames <- frame{typ, rest, err}:
		default: // more than were requested
			_ = b.conn.Close()
			return
		}
		if err != nil {
			return
		}
	}
}

// Put puts a value, to be seen after the next Fence.
func (b *Board) Put(_ context.Context, key string, value []byte) error {
	if err := b.live(); err != nil {
		return err
	}
	if err := board.Check(key, len(value)); err != nil {
		return err
	}
	if n := len(b.pending) + 1 + len(key) + 4 + len(value); n > maxFence-4 {
		return fmt.Errorf("%w: more than %d bytes between two fences", board.ErrEntry, maxFence)
	}
	b.pending = appendEntry(b.pending, key, value)
	return nil
}

// Get returns a value that was put before the last Fence.
func (b *Board) Get(_ context.Context, key string) ([]byte, bool, error) {
	if err := b.live(); err != nil {
		return nil, false, err
	}
	v, ok := b.values[key]
	return v, ok, nil
}

// Fence waits for all others to call it. Shortly before ctx's deadline it requests
// the list of missing ranks, so that the answer arrives in time.
func (b *Board) Fence(ctx context.Context) error {
	if err := b.live(); err != nil {
		return err
	}
	number := b.fence
	b.fence++
	ask := numbered(typeFence, number, b.pending)
	if n, err := b.send(ctx, ask); err != nil {
		switch why := context.Cause(ctx); {
		case why == nil:
			return b.broken(err)
		case errors.Is(why, context.DeadlineExceeded):
			return b.silent(why)
		default:
			return b.late(why, number, lateTime, ask[n:])
		}
	}
	b.pending = nil
	early, cancel, rest := beforeDeadline(ctx)
	defer cancel()
	select {
	case f := <-b.frames:
		return b.result(f, number)
	case <-early.Done():
	}
	return b.late(context.Cause(early), number, rest, nil)
}

// beforeDeadline ends before ctx does, which leaves time for the list of missing
// ranks.
func beforeDeadline(ctx context.Context) (early context.Context, cancel func(), rest time.Duration) {
	until, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}, lateTime
	}
	rest = max(0, min(lateTime, until.Sub(clock.Wall())/4))
	early, cancel = context.WithDeadline(ctx, until.Add(-rest))
	return early, cancel, max(rest, leastLate)
}

// late ends a Fence whose time is up, or that is given up: the hub knows which ranks are
// missing, and informs the others. The unwritten rest of a frame goes first.
func (b *Board) late(why error, number uint32, rest time.Duration, unsaid []byte) error {
	last := numbered(typeLate, number, nil)
	if !errors.Is(why, context.DeadlineExceeded) {
		last = abortFrame(board.Failed(b.cfg.Rank, board.GivenUp, "rank %d gave up: %v", b.cfg.Rank, why))
	}
	bound, cancel := context.WithTimeout(context.Background(), rest)
	defer cancel()
	if _, err := b.send(bound, append(unsaid, last...)); err == nil {
		select {
		case f := <-b.frames:
			return b.result(f, number)
		case <-bound.Done():
		}
	}
	return b.silent(why)
}

// silent ends the board because rank 0 does not answer.
func (b *Board) silent(why error) error {
	b.failed = fmt.Errorf("waiting for the other %d ranks: %w", b.cfg.Size-1, why)
	if b.server == nil && errors.Is(why, context.DeadlineExceeded) {
		b.failed = board.Failed(0, board.Deadline, "time is up, and rank 0 at %s does not say which ranks are missing", b.cfg.Addr)
	}
	return b.failed
}

// result takes the answer to a FENCE.
func (b *Board) result(f frame, number uint32) error {
	if f.err != nil {
		return b.gone(f.err)
	}
	if f.typ == typeAbort {
		why, err := parseAbort(f.rest, b.cfg.Size)
		if err != nil {
			return b.gone(err)
		}
		b.failed = why
		if b.server != nil {
			b.server.hub.notifyAll()
		}
		return why
	}
	n, entries, err := parseNumbered(f.rest)
	if err == nil && (f.typ != typeResult || n != number) {
		err = malformed("type %d number %d at fence %d", f.typ, n, number)
	}
	if err == nil {
		err = eachEntry(entries, func(key string, value []byte) error { b.values[key] = value; return nil })
	}
	if err != nil {
		return b.gone(err)
	}
	return nil
}

// live returns the reason why the board cannot be used, nil if it can.
func (b *Board) live() error {
	switch {
	case b.closed:
		return net.ErrClosed
	case b.failed != nil:
		return b.failed
	}
	return nil
}

// broken ends the board for an error of the connection. If an ABORT arrived last, it is
// the reason.
func (b *Board) broken(err error) error {
	bound := clock.NewTimer(lateTime)
	defer bound.Stop()
	select { // the reader ends as well, if it has not yet
	case f := <-b.frames:
		if f.err == nil && f.typ == typeAbort {
			return b.result(f, 0)
		}
	case <-bound.C:
	}
	return b.gone(err)
}

func (b *Board) gone(err error) error {
	b.failed = board.Failed(0, board.Gone, "rank 0 at %s went away: %v", b.cfg.Addr, cause(err))
	return b.failed
}

// send writes a frame until ctx ends, but not for longer than writeTime, and returns how
// many bytes were written.
func (b *Board) send(ctx context.Context, frame []byte) (int, error) {
	_ = b.conn.SetWriteDeadline(clock.Deadline(writeTime))
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = b.conn.SetWriteDeadline(longAgo)
	})
	n, err := b.conn.Write(frame)
	if !stop() {
		<-done
	}
	return n, err
}

// Abort informs the others of the reason why this rank gives up, and closes the
// board.
func (b *Board) Abort(text string) {
	if b.live() == nil {
		f := board.Failed(b.cfg.Rank, board.GivenUp, "rank %d gave up: %s", b.cfg.Rank, text)
		b.failed = f
		if b.server != nil {
			b.server.hub.fail(f)
		} else {
			_, _ = b.send(context.Background(), abortFrame(f)) // else they hear of the end
		}
	}
	_ = b.Close()
}

// Close says BYE. Rank 0 waits a while for the others to do so.
func (b *Board) Close() error {
	if b.closed {
		return nil
	}
	if b.failed == nil {
		_, _ = b.send(context.Background(), newFrame(typeBye, nil))
	}
	b.closed = true
	_ = b.conn.Close()
	b.reader.Wait()
	if b.server != nil {
		b.server.close()
	}
	return nil
}

// Local is this host's address on the way to the other ranks; the zero Addr if there is
// none yet. On the host of rank 0 it is the one by which ranks of other hosts found that: the
// way within a host, 127.0.1.1 for one, leads others elsewhere.
func (b *Board) Local() netip.Addr {
	if b.server != nil {
		h := b.server.hub
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.at
	}
	if at, err := netip.ParseAddr(string(b.values[keyAt])); err == nil && b.cfg.near(b.conn) {
		return at
	}
	return addrOf(b.conn.LocalAddr())
}

func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// The pauses between attempts.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

var (
	noDeadline time.Time
	longAgo    = time.Unix(1, 0)
)

// dial connects to rank 0 and is accepted by it. It tries again until ctx ends, unless
// what went wrong will not pass.
func dial(ctx context.Context, cfg *Config) (net.Conn, error) {
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if cfg.Left != nil {
			if err := cfg.Left(); err != nil {
				return nil, err
			}
		}
		conn, err := attempt(ctx, cfg)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() == nil && !passes(err) {
			return nil, fmt.Errorf("rank 0 at %s: %w", cfg.Addr, err)
		}
		if ctx.Err() == nil || last == nil { // else it is about ctx
			last = err
		}
		if errors.Is(err, errOther) && pause == firstPause {
			cfg.Logger.Warn("launch: another job is there, waiting for it to end", "addr", cfg.Addr, "reason", err)
		}
		t := clock.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("rank 0 did not answer at %s: %w (%w)", cfg.Addr, context.Cause(ctx), last)
		}
	}
}

// errOther is the answer of another job's rank 0.
var errOther = errors.New("rendezvous: another job")

// errEarly is the answer to a rank that has left a board of its job, and comes for the next.
var errEarly = errors.New("rendezvous: rank 0 has not left the former board yet")

// passes reports whether it is worth another attempt.
func passes(err error) bool {
	var dns *net.DNSError
	var no syscall.Errno
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errOther), errors.Is(err, errEarly), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		return true
	case errors.Is(err, ErrNotLocal):
		return false
	case errors.As(err, &dns), errors.As(err, &no): // names come and go, too
		return true
	case errors.As(err, &timeout):
		return timeout.Timeout()
	}
	return false
}

func attempt(ctx context.Context, cfg *Config) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime, KeepAliveConfig: keepAlive, Control: cfg.control}
	conn, err := d.DialContext(ctx, "tcp", cfg.Addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(clock.Deadline(greetTime))
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	good := conn
	if cfg.Client != nil {
		good = tls.Client(conn, cfg.Client)
	}
	if err := introduce(good, cfg); err != nil {
		_ = conn.Close()
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	_ = conn.SetDeadline(noDeadline)
	return good, nil
}

// introduce says HELLO and hears the answer.
func introduce(conn net.Conn, cfg *Config) error {
	hi := hello{version: version, rank: uint32(cfg.Rank), size: uint32(cfg.Size), job: cfg.Job}
	if _, err := conn.Write(hi.frame()); err != nil {
		return secretError(err)
	}
	typ, rest, err := readFrame(conn, maxSmall)
	if err != nil {
		return secretError(err)
	}
	switch typ {
	case typeWelcome:
		return nil
	case typeRefused:
		if string(rest) == cfg.Job {
			return errEarly
		}
		return fmt.Errorf("%w: %q, not %q", errOther, printable(rest), cfg.Job)
	case typeAbort:
		f, err := parseAbort(rest, cfg.Size)
		if err != nil {
			return err
		}
		return f
	}
	return malformed("type %d in answer to HELLO", typ)
}

// secretError says in other words what TLS has to say about different secrets.
func secretError(err error) error {
	var verify *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var op *net.OpError
	text := ""
	switch {
	case errors.As(err, &plain):
		text = "it has no job secret, this rank has one"
	case errors.Is(err, errTLS):
		text = "it has a job secret, this rank has none"
	case errors.As(err, &verify), errors.As(err, &op) && op.Op == "remote error":
		text = "it has another job secret"
	default:
		return err
	}
	return fmt.Errorf("%w: %w", board.Failed(0, board.Mistake, "%s", text), err)
}
