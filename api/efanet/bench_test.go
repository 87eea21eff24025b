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

// each runs a benchmark on connections of both kinds to another process.
func each(b *testing.B, size int, f func(b *testing.B, c net.Conn, p []byte)) {
	for on, dial := range map[string]func(context.Context, string) (net.Conn, error){
		"efanet": efanet.Dial,
		"tcp": func(ctx context.Context, at string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", at)
		},
	} {
		b.Run("conn="+on, func(b *testing.B) {
			at, _ := process(b, on)
			c, err := dial(soon(b), at)
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
