//go:build linux

package tcp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/internal/testenv"
)

// TestOutKeepsOrder puts random things in and takes random numbers of bytes off: the
// output equals the input.
func TestOutKeepsOrder(t *testing.T) {
	regions := nic.NewRegions(nic.RegionsConfig{})
	mem := make([]byte, 100_000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range mem {
		mem[i] = byte(rng.Uint32())
	}
	mr, err := regions.Register(mem, device.RemoteRead)
	require.NoError(t, err)
	rounds := 200
	if testenv.Short() {
		rounds = 30
	}
	for range rounds {
		var o out
		var want, got []byte
		frameTo := func(f frame) { want = f.appendTo(want) }
		for step := range 400 {
			token := uint64(step)
			switch n := rng.IntN(3000); rng.IntN(8) {
			case 0:
				f := frame{kind: kindStatus, token: token}
				o.frame(&f)
				frameTo(f)
			case 1:
				o.bytes(mem[:n])
				want = append(want, mem[:n]...)
			case 2:
				o.memory(mem[n : 2*n])
				want = append(want, mem[n:2*n]...)
			case 4: // until it is settled
				o.lend(mem[n : 2*n])
				want = append(want, mem[n:2*n]...)
			case 5:
				o.settle()
				for i := o.first; i < len(o.segs); i++ {
					require.False(t, o.segs[i].lent)
				}
			case 3:
				n++
				o.region(mr.RKey(), mr.Addr()+5, n, token)
				frameTo(frame{kind: kindData, length: n, token: token})
				want = append(want, mem[5:5+n]...)
				frameTo(frame{kind: kindStatus, token: token})
			default:
				vec, held, total := o.gather(make([][]byte, 0, maxIovecs), nil, regions, 10_000)
				all := bytes.Join(vec, nil)
				require.Len(t, all, total)
				k := rng.IntN(total + 1)
				got = append(got, all[:k]...)
				for _, r := range held {
					r.Release()
				}
				o.wrote(k)
			}
			require.Equal(t, len(want)-len(got), o.size)
		}
		for o.size > 0 {
			vec, held, total := o.gather(make([][]byte, 0, maxIovecs), nil, regions, 10_000)
			got = append(got, bytes.Join(vec, nil)...)
			for _, r := range held {
				r.Release()
			}
			o.wrote(total)
		}
		require.True(t, bytes.Equal(want, got))
	}
	require.NoError(t, mr.Close())
}

// TestOutOfClosedRegion: zeroes replace a region that is closed during the transfer, and
// the status after them says so. Others are not affected.
func TestOutOfClosedRegion(t *testing.T) {
	regions := nic.NewRegions(nic.RegionsConfig{})
	mem := bytes.Repeat([]byte{7}, 100_000)
	mr, err := regions.Register(mem, device.RemoteRead)
	require.NoError(t, err)
	other, err := regions.Register(mem, device.RemoteRead)
	require.NoError(t, err)
	var o out
	o.region(mr.RKey(), mr.Addr(), len(mem), 1)
	o.region(other.RKey(), other.Addr(), 10, 2)
	_, held, _ := o.gather(nil, nil, regions, 1)
	for _, r := range held {
		r.Release()
	}
	o.wrote(baseLen + 40_000)
	require.NoError(t, mr.Close())
	var got []byte
	for o.size > 0 {
		vec, held, total := o.gather(nil, nil, regions, 1<<30)
		got = append(got, bytes.Join(vec, nil)...)
		for _, r := range held {
			r.Release()
		}
		o.wrote(total)
	}
	require.Equal(t, make([]byte, 60_000), got[:60_000])
	var f frame
	_, err = f.parse(got[60_000:], 100)
	require.NoError(t, err)
	require.Equal(t, frame{kind: kindStatus, token: 1, status: device.StatusBadAddress}, f)
	_, err = f.parse(got[len(got)-baseLen:], 100)
	require.NoError(t, err)
	require.Equal(t, frame{kind: kindStatus, token: 2}, f)
	require.NoError(t, other.Close())
}
