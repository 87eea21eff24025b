package pmi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

// Config describes the connection to the launcher.
type Config struct {
	Conn net.Conn
	// Version is the one to ask for, 1 or 2; the launcher may have the other.
	Version int
	// Rank and Size come from the environment. Size 0: the launcher sends them, by ID.
	Rank, Size int
	ID         string
	// JobID is the identifier that PMI-2 expects; "": the launcher sends it.
	JobID string
}

// Client is a process's connection to its launcher. One goroutine at a time uses it.
type Client struct {
	Rank, Size int
	Version    int

	c      *conn
	speak  dialect
	failed error
	closed bool
}

// dialect has the differences between the versions.
type dialect interface {
	begin(cfg *Config) error
	// limits are the longest key and value.
	limits() (key, value int)
	put(key, value string) error
	fence() error
	get(key string) (value string, ok bool, err error)
	abort(text string) error
	finalize() error
}

// The times that do not depend on the caller's.
const finalizeTime = 5 * time.Second

var errMalformed = errors.New("pmi: malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
}

// Open introduces the process to its launcher. The connection is the client's from then on.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	k := &Client{Rank: cfg.Rank, Size: cfg.Size, c: newConn(cfg.Conn)}
	err := k.do(ctx, func() error { return k.begin(&cfg) })
	if err != nil {
		_ = cfg.Conn.Close()
		return nil, err
	}
	return k, nil
}

func (k *Client) begin(cfg *Config) error {
	if cfg.Size == 0 {
		if err := k.identify(cfg.ID); err != nil {
			return err
		}
	}
	m, err := k.c.ask1(fmt.Sprintf("cmd=init pmi_version=%d pmi_subversion=%d", cfg.Version, 2-cfg.Version), "response_to_init")
	if err != nil {
		return err
	}
	switch m.args["pmi_version"] {
	case "1":
		k.Version, k.speak = 1, &lines{c: k.c}
	case "2":
		k.Version, k.speak = 2, &records{c: k.c, rank: k.Rank, size: k.Size}
	default:
		return malformed("it speaks version %q", m.args["pmi_version"])
	}
	if err := k.speak.begin(cfg); err != nil {
		return err
	}
	if key, value := k.speak.limits(); key < board.MaxKey+maxSuffix+1 || value < minPart {
		return malformed("keys of at most %d and values of at most %d characters", key, value)
	}
	return nil
}

// identify exchanges the identifier of a process that has connected by itself.
func (k *Client) identify(id string) error {
	m, err := k.c.ask1("cmd=initack pmiid="+id, "initack")
	if err != nil {
		return err
	}
	size, rank := -1, -1
	for range 3 { // size, rank, debug
		if m, err = k.c.line(); err != nil {
			return err
		}
		if m.cmd != "set" {
			return malformed("%q instead of set", m.cmd)
		}
		for name, to := range map[string]*int{"size": &size, "rank": &rank} {
			if text, ok := m.args[name]; ok {
				if *to, err = number(text); err != nil {
					return err
				}
			}
		}
	}
	if size < 1 || rank < 0 || rank >= size {
		return malformed("rank %d of %d", rank, size)
	}
	k.Rank, k.Size = rank, size
	return nil
}

// do runs an exchange until ctx ends. After an error there is no other.
func (k *Client) do(ctx context.Context, exchange func() error) error {
	switch {
	case k.closed:
		return net.ErrClosed
	case k.failed != nil:
		return k.failed
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = k.c.SetDeadline(time.Unix(1, 0))
	})
	err := exchange()
	if !stop() {
		<-done
		if err == nil { // it was in time after all
			_ = k.c.SetDeadline(time.Time{})
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
		err = context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = board.Failed(board.Nobody, board.Gone, "the launcher has closed its connection")
	}
	k.failed = err
	return err
}

// Fence waits for all others to call it.
func (k *Client) Fence(ctx context.Context) error {
	err := k.do(ctx, func() error { return k.speak.fence() })
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("not all %d ranks arrived in time, and PMI does not tell which are missing: %w", k.Size, err)
	}
	return err
}

// Abort has the launcher end all processes.
func (k *Client) Abort(text string) {
	if !k.closed && k.failed == nil {
		_ = k.c.SetDeadline(clock.Deadline(finalizeTime))
		_ = k.speak.abort(text)
	}
	k.closed = true
	_ = k.c.Close()
}

// Close signs off at the launcher, which takes a process that ends without it for dead.
func (k *Client) Close() (err error) {
	if k.closed {
		return nil
	}
	if k.failed == nil {
		ctx, cancel := context.WithTimeout(context.Background(), finalizeTime)
		defer cancel()
		err = k.do(ctx, func() error { return k.speak.finalize() })
	}
	k.closed = true
	return errors.Join(err, k.c.Close())
}

// Local is unknown: PMI's connections stay on a host.
func (k *Client) Local() netip.Addr { return netip.Addr{} }

// A value is base64 in parts: the first, under the key itself, begins with how many there
// are and a dot; part i lies under key:i.
const (
	minPart   = 64  // characters; launchers with less cannot be used
	maxPart   = 700 // as many as pass everywhere
	maxSuffix = 5   // ":1234"
	maxParts  = (board.MaxValue*4/3+2)/(minPart-maxSuffix) + 2
)

var encoding = base64.RawURLEncoding

// split cuts a value into parts of at most n characters.
func split(value []byte, n int) []string {
	text := encoding.EncodeToString(value)
	n -= maxSuffix // for the number
	count := max(1, (len(text)+n-1)/n)
	parts := make([]string, count)
	for i := range parts {
		parts[i] = text[min(i*n, len(text)):min((i+1)*n, len(text))]
	}
	parts[0] = strconv.Itoa(count) + "." + parts[0]
	return parts
}

func partKey(key string, i int) string {
	if i == 0 {
		return key
	}
	return key + ":" + strconv.Itoa(i)
}

// Put puts a value, to be seen after the next Fence.
func (k *Client) Put(ctx context.Context, key string, value []byte) error {
	if err := board.Check(key, len(value)); err != nil {
		return err
	}
	return k.do(ctx, func() error {
		_, most := k.speak.limits()
		for i, part := range split(value, min(most, maxPart)) {
			if err := k.speak.put(partKey(key, i), part); err != nil {
				return err
			}
		}
		return nil
	})
}

// Get returns a value that was put before the last Fence.
func (k *Client) Get(ctx context.Context, key string) (value []byte, ok bool, err error) {
	err = k.do(ctx, func() error {
		value, ok, err = collect(key, k.speak.get)
		return err
	})
	return value, ok && err == nil, err
}

// collect gets all parts of a value.
func collect(key string, get func(string) (string, bool, error)) (value []byte, ok bool, err error) {
	first, ok, err := get(key)
	if err != nil || !ok {
		return nil, false, err
	}
	number, text, ok := strings.Cut(first, ".")
	count, err := strconv.Atoi(number)
	if !ok || err != nil || count < 1 || count > maxParts {
		return nil, false, malformed("value %q of key %s", clip(first), key)
	}
	var b strings.Builder
	b.WriteString(text)
	for i := 1; i < count; i++ {
		part, ok, err := get(partKey(key, i))
		if err != nil {
			return nil, false, err
		}
		if !ok || part == "" {
			return nil, false, malformed("part %d of %d of key %s is not there", i, count, key)
		}
		b.WriteString(part)
		if b.Len() > encoding.EncodedLen(board.MaxValue) {
			return nil, false, malformed("key %s has more than %d bytes", key, board.MaxValue)
		}
	}
	value, err = encoding.DecodeString(b.String())
	if err != nil || len(value) > board.MaxValue {
		return nil, false, malformed("value %q of key %s", clip(first), key)
	}
	return value, true, nil
}
