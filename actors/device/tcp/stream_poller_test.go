//go:build linux && netpoll

package tcp

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPipe: all bytes come through in order, in pieces of all sizes, and each side that finds too
// little hears when there is more; the error comes with the last bytes.
func TestPipe(t *testing.T) {
	const total = 4 << 20
	for name, run := range map[string]func(t *testing.T, p *pipe, rang chan struct{}){
		"in": func(t *testing.T, p *pipe, rang chan struct{}) {
			go func() {
				for sent := 0; sent < total; {
					b := p.room()
					n := copy(b[:1+rand.IntN(len(b))], counting(sent, min(total-sent, len(b))))
					sent += n
					var err error
					if sent == total {
						err = io.EOF
					}
					p.came(n, err)
				}
			}()
			buf := make([]byte, 100_000)
			for got := 0; ; {
				want := 1 + rand.IntN(len(buf))
				n, err := p.get(buf[:want])
				require.Equal(t, counting(got, n), buf[:n])
				if got += n; errors.Is(err, io.EOF) {
					require.Equal(t, total, got)
					return
				}
				require.NoError(t, err)
				if n < want {
					<-rang
				}
			}
		},
		"out": func(t *testing.T, p *pipe, rang chan struct{}) {
			done := make(chan bool)
			go func() {
				ok, got := true, 0
				for {
					b, over := p.next()
					if over {
						done <- ok && got == total
						return
					}
					b = b[:1+rand.IntN(len(b))]
					ok = ok && string(b) == string(counting(got, len(b)))
					got += len(b)
					p.left(len(b), nil)
				}
			}()
			for sent := 0; sent < total; {
				b := counting(sent, min(total-sent, 1+rand.IntN(100_000)))
				cut := rand.IntN(len(b) + 1)
				n, err := p.put([][]byte{b[:cut], nil, b[cut:]})
				require.NoError(t, err)
				if sent += n; n < len(b) {
					<-rang
				}
			}
			p.close()
			require.True(t, <-done)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rang := make(chan struct{}, 1)
			p := &pipe{}
			p.init(func() { rang <- struct{}{} })
			run(t, p, rang)
		})
	}
}
