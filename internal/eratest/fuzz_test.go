package eratest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/wiretext"
)

// FuzzJudge shows a judge any sequence of packets. Whatever they are, it ends with a
// verdict: nothing, or a Fault with its rule.
func FuzzJudge(f *testing.F) {
	for i := range ruleCases {
		c := &ruleCases[i]
		var b []byte
		for _, s := range append(append([]step(nil), c.before...), c.breaks) {
			p := s.bytes()
			head := byte(0)
			if s.out {
				head = 1
			}
			b = append(b, head, byte(len(p)), byte(len(p)>>8))
			b = append(b, p...)
		}
		f.Add(uint8(i%len(era.All)), b)
	}
	f.Fuzz(func(t *testing.T, release uint8, b []byte) {
		j := NewJudge(era.All[int(release)%len(era.All)], mtu)
		for len(b) >= 3 {
			n := min(int(b[1])|int(b[2])<<8, len(b)-3)
			out, p := b[0]&1 != 0, b[3:3+n]
			b = b[3+n:]
			err := step{out: out, raw: p}.tell(j)
			if err == nil {
				continue
			}
			var fault *Fault
			require.ErrorAs(t, err, &fault)
			require.NotEmpty(t, fault.Rule)
			require.NotEmpty(t, fault.Why)
			require.Equal(t, wiretext.Summary(p), fault.Packet)
		}
	})
}
