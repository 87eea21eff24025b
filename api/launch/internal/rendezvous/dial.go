package rendezvous

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

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
