package echo

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/efactor/efactor/bench/internal/versus"
)

const (
	// maxMessage bounds what a client can ask for.
	maxMessage = 64 << 20
	// batch is after how many messages of a stream the receiver answers: so does package flow with its window of 64.
	batch = 256
	// buffered is what a receiver of a stream takes from the kernel at once.
	buffered = 64 << 10
)

var errLength = errors.New("no such length")

// sockets is the least that Go can do over a kind of sockets: connections whose first 8 bytes are the length
// of every message; TCP_NODELAY as net sets it.
func sockets(name, network string) System {
	return System{
		name,
		func(ctx context.Context, p Plan, ready func(string)) error {
			l, err := listenSocket(ctx, network)
			if err != nil {
				return err
			}
			return accept(ctx, l, ready, func(c net.Conn) error { return p.answer(c) })
		},
		func(ctx context.Context, p Plan, addr string) (caller, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			c := &socketCaller{conn: conn, answer: make([]byte, p.Size)}
			_, err = conn.Write(binary.LittleEndian.AppendUint64(nil, uint64(p.Size))) //nolint:gosec // a size
			return c, err
		},
	}
}

func listenSocket(ctx context.Context, network string) (net.Listener, error) {
	at := "127.0.0.1:0"
	if network == "unix" {
		at = fmt.Sprintf("@efactor-bench-%d", os.Getpid())
	}
	return new(net.ListenConfig).Listen(ctx, network, at)
}

// accept serves each connection until the context ends.
func accept(ctx context.Context, l net.Listener, ready func(string), serve func(net.Conn) error) error {
	var open sync.WaitGroup
	defer open.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	ready(l.Addr().String())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		open.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			if err := serve(c); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "echo:", err)
			}
			_ = c.Close() // so that the client notices
		})
	}
}

// answer serves a connection: it sends back each message, or of a stream a word for each batch.
func (p *Plan) answer(conn net.Conn) error {
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return end(err)
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n > maxMessage {
		return errLength
	}
	message := make([]byte, n)
	if p.Stream {
		return p.take(conn, message)
	}
	for {
		if _, err := io.ReadFull(conn, message); err != nil {
			return end(err)
		}
		if _, err := conn.Write(message); err != nil {
			return err
		}
	}
}

// take receives a stream, and computes for each message.
func (p *Plan) take(conn net.Conn, message []byte) error {
	into := several(message)
	for in := bufio.NewReaderSize(conn, buffered); ; {
		for i := range batch {
			if _, err := io.ReadFull(in, into[i%len(into)]); err != nil {
				return end(err)
			}
			versus.Compute(p.Think)
		}
		if _, err := conn.Write(make([]byte, 8)); err != nil {
			return err
		}
	}
}

// several are the buffers of a stream, used in turn: as many as a window of package flow has.
func several(message []byte) [][]byte {
	list := make([][]byte, 64)
	for i := range list {
		list[i] = slices.Clone(message)
	}
	return list
}

// end is no error where a client has gone.
func end(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

type socketCaller struct {
	conn   net.Conn
	answer []byte
}

func (c *socketCaller) call(_ context.Context, question []byte) ([]byte, error) {
	if len(question) != len(c.answer) {
		return nil, errLength
	}
	if _, err := c.conn.Write(question); err != nil {
		return nil, err
	}
	_, err := io.ReadFull(c.conn, c.answer)
	return c.answer, err
}

// stream sends whole batches.
func (c *socketCaller) stream(_ context.Context, n int, message []byte) error {
	var word [8]byte
	from := several(message)
	for i := range n {
		if _, err := c.conn.Write(from[i%len(from)]); err != nil {
			return err
		}
		if (i+1)%batch == 0 {
			if _, err := io.ReadFull(c.conn, word[:]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *socketCaller) close() error { return c.conn.Close() }
