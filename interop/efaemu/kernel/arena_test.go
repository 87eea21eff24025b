//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// mapper is a program that has these parts mapped.
type mapper struct {
	Task
	maps []Mapping
	err  error
}

func (m *mapper) Maps() ([]Mapping, error) { return m.maps, m.err }

func TestArena(t *testing.T) {
	a, err := newArena("test")
	require.NoError(t, err)
	defer a.close()
	who := &mapper{}
	r1, r2, r3 := a.alloc(who, "1", 1, 0), a.alloc(who, "2", a.page+1, 0), a.alloc(who, "3", 5*a.page, 0)
	assert.Equal(t, Region{Key: 0, Length: a.page}, r1.Region)
	assert.Equal(t, Region{Key: 2 * a.page, Length: 2 * a.page}, r2.Region, "not next to it")
	assert.Len(t, a.bytes(r2), int(2*a.page))
	a.bytes(r2)[0] = 1
	a.giveBack(r2)
	a.giveBack(r2)
	a.giveBack(nil)
	assert.Zero(t, a.mem[r2.Key])

	who.err = errors.New("no list")
	assert.Greater(t, a.alloc(who, "4", 1, 0).Key, r3.Key, "nobody knows whether it is mapped")
	who.err, who.maps = nil, []Mapping{{Offset: r2.Key + a.page, Length: 1}}
	assert.Greater(t, a.alloc(who, "5", 1, 0).Key, r3.Key, "it is")
	who.maps = []Mapping{{Offset: r2.Key + r2.Length + a.page, Length: 1}, {Offset: r2.Key - 1, Length: 1}}
	a.mem[r2.Key] = 1
	assert.Equal(t, r2.Key, a.alloc(who, "6", 2*a.page, 0).Key, "its neighbours are")
	assert.Zero(t, a.mem[r2.Key])

	assert.Nil(t, a.alloc(who, "all", arenaSize, 0))
	assert.Nil(t, a.alloc(who, "more", arenaSize+1, 0))
	assert.Nil(t, a.alloc(who, "much more", ^uint64(0), 0))
	assert.Nil(t, a.alloc(who, "nothing", 0, 0))
}

// With any order of alloc and free regions never overlap, and in the end all is one
// piece again.
func TestArenaRandom(t *testing.T) {
	a, err := newArena("test")
	require.NoError(t, err)
	defer a.close()
	who := &mapper{}
	rng := rand.New(rand.NewPCG(1, 2))
	var live []*region
	for range 3000 {
		if len(live) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(live))
			a.giveBack(live[i])
			live = slices.Delete(live, i, i+1)
			continue
		}
		if r := a.alloc(who, "r", 1+rng.Uint64N(1<<22), 0); r != nil {
			for _, o := range live {
				require.False(t, r.Key < o.Key+o.Length && o.Key < r.Key+r.Length)
			}
			live = append(live, r)
		}
	}
	for _, r := range live {
		a.giveBack(r)
	}
	a.settle(who)
	assert.Equal(t, []span{{0, arenaSize}}, a.free)
	assert.Empty(t, a.used)
}

func TestTable(t *testing.T) {
	var tab table
	for i := range uint32(5) {
		require.Equal(t, i, tab.next())
		tab.put(i, &mr{})
	}
	tab.remove(3)
	tab.remove(1)
	require.EqualValues(t, 1, tab.next())
	tab.put(1, &ah{})
	require.EqualValues(t, 3, tab.next(), "the lowest that is free")
	tab.put(3, &ah{})
	require.EqualValues(t, 5, tab.next())
}

func TestMTUEnum(t *testing.T) {
	for mtu, want := range map[int]uint8{100: 1, 256: 1, 511: 1, 512: 2, 1024: 3, 2048: 4, 4095: 4, 4096: 5, 8928: 5} {
		assert.Equal(t, want, mtuEnum(mtu), mtu)
	}
}

func TestErrno(t *testing.T) {
	for want, err := range map[unix.Errno]error{
		0:               nil,
		unix.ENOMEM:     device.ErrNoMemory,
		unix.EOPNOTSUPP: device.ErrNotSupported,
		unix.EFAULT:     memory.ErrFault,
		unix.EIO:        device.ErrClosed,
		unix.EINVAL:     errors.New("whatever"),
	} {
		if err != nil {
			err = fmt.Errorf("why: %w", err)
		}
		assert.Equal(t, want, errno(err))
	}
	assert.Equal(t, unix.EFAULT, errno(memory.ErrGone))
}
