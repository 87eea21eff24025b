package efanet_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efanet"
)

// dialers open connections of the kinds that are compared.
var dialers = []struct {
	on   string
	dial func(context.Context, string) (net.Conn, error)
}{
	{"efanet", efanet.Dial},
	{"tcp", func(ctx context.Context, at string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", at)
	}},
	{"unix", func(ctx context.Context, at string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", at)
	}},
}

// each runs a benchmark on connections of all kinds to another process.
func each(b *testing.B, size int, f func(b *testing.B, c net.Conn, p []byte)) {
	for _, d := range dialers {
		b.Run("conn="+d.on, func(b *testing.B) {
			at, _ := process(b, d.on)
			c, err := d.dial(soon(b), at)
			require.NoError(b, err)
			defer c.Close()
			_, err = fmt.Fprintf(c, "%08d", size)
			require.NoError(b, err)
			b.ReportAllocs()
			f(b, c, make([]byte, size))
		})
	}
}

// BenchmarkRequest is a request and its reply of 64 B each.
func BenchmarkRequest(b *testing.B) {
	each(b, 64, func(b *testing.B, c net.Conn, p []byte) {
		for b.Loop() {
			if _, err := c.Write(p); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWrite is writes of 1 MiB to a reader with a buffer as long.
func BenchmarkWrite(b *testing.B) {
	each(b, 1<<20, func(b *testing.B, c net.Conn, p []byte) {
		b.SetBytes(1 << 20)
		for b.Loop() {
			if _, err := c.Write(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
