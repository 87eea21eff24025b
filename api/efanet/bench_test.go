package efanet_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efanet"
)

// Both kinds of connection go to another goroutine of this process.
var kinds = []struct {
	name string
	dial func(b *testing.B) (here, there net.Conn)
}{
	{"efanet", func(b *testing.B) (net.Conn, net.Conn) { return dial(b, listen(b, efanet.ListenConfig{})) }},
	{"tcp", func(b *testing.B) (net.Conn, net.Conn) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(b, err)
		defer l.Close()
		here, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.Addr().String())
		require.NoError(b, err)
		there, err := l.Accept()
		require.NoError(b, err)
		b.Cleanup(func() {
			_ = here.Close()
			_ = there.Close()
		})
		return here, there
	}},
}

// BenchmarkRequest is a request and its reply of 64 B each.
func BenchmarkRequest(b *testing.B) {
	for _, k := range kinds {
		b.Run("conn="+k.name, func(b *testing.B) {
			here, there := k.dial(b)
			go func() { _, _ = io.CopyBuffer(struct{ io.Writer }{there}, struct{ io.Reader }{there}, make([]byte, 64)) }()
			p := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := here.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(here, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWrite is writes of 1 MiB to a reader with a buffer as long.
func BenchmarkWrite(b *testing.B) {
	for _, k := range kinds {
		b.Run("conn="+k.name, func(b *testing.B) {
			here, there := k.dial(b)
			go func() { _, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{there}, make([]byte, 1<<20)) }()
			p := make([]byte, 1<<20)
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := here.Write(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
