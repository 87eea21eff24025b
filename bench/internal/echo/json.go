package echo

import (
	"context"
	"encoding/json"
	"net"
	"strings"

	"github.com/efactor/efactor/api/efanet"
)

// Documents are systems whose questions and answers are JSON documents, each written and read by
// encoding/json as net/rpc/jsonrpc does it: connections of efactor's, and the kernel's.
var Documents = []System{
	documents("efanet", efanet.Listen, efanet.Dial),
	documents("json-unix", socketAt("unix"), dialSocket("unix")),
	documents("json-tcp", socketAt("tcp"), dialSocket("tcp")),
}

func socketAt(network string) func(context.Context, string) (net.Listener, error) {
	return func(ctx context.Context, _ string) (net.Listener, error) { return listenSocket(ctx, network) }
}

func dialSocket(network string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

// document is what is asked and answered.
type document struct {
	ID   int    `json:"id"`
	Body string `json:"body"`
}

// around are the bytes of a document beside its body, or one or two fewer.
const around = len(`{"id":123456,"body":""}`) + 1

func documents(
	name string, listen func(context.Context, string) (net.Listener, error), dial func(context.Context, string) (net.Conn, error),
) System {
	return System{
		name,
		func(ctx context.Context, _ Plan, ready func(string)) error {
			l, err := listen(ctx, "")
			if err != nil {
				return err
			}
			return accept(ctx, l, ready, func(c net.Conn) error {
				in, out := json.NewDecoder(c), json.NewEncoder(c)
				for {
					var d document
					if err := in.Decode(&d); err != nil {
						return end(err)
					}
					if err := out.Encode(&d); err != nil {
						return err
					}
				}
			})
		},
		func(ctx context.Context, p Plan, addr string) (caller, error) {
			c, err := dial(ctx, addr)
			if err != nil {
				return nil, err
			}
			return &documentCaller{c, json.NewDecoder(c), json.NewEncoder(c), document{Body: strings.Repeat("x", max(p.Size-around, 1))}}, nil
		},
	}
}

type documentCaller struct {
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
	next document
}

// call has a document of its own for the question.
func (c *documentCaller) call(_ context.Context, question []byte) ([]byte, error) {
	c.next.ID++
	if err := c.out.Encode(&c.next); err != nil {
		return nil, err
	}
	var d document
	if err := c.in.Decode(&d); err != nil {
		return nil, err
	}
	if d.ID != c.next.ID || len(d.Body) != len(c.next.Body) {
		return nil, errAnswer
	}
	return question, nil
}

func (c *documentCaller) close() error { return c.conn.Close() }
