package devicetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var regionCases = []testCase{
	{name: "Regions", devices: 1, run: (*world).regions},
	{name: "RegionsRefused", devices: 1, run: (*world).regionsRefused},
	{name: "RegionsRenewed", devices: 1, run: (*world).regionsRenewed},
	{name: "RegionKeys", devices: 1, run: (*world).regionKeys, needs: (*Fabric).software},
	{name: "RegionAddresses", devices: 1, run: (*world).regionAddresses},
	{name: "RegionsKeepDeviceOpen", devices: 1, run: (*world).regionsKeepDevice},
}

// regions: Register and Alloc make regions as requested.
func (w *world) regions() {
	d := w.f.Devices[0]
	for _, n := range []int{1, 100, 4096, 4097, 3 << 20} {
		mr := w.alloc(0, n, allAccess)
		require.Len(w, mr.Bytes(), n)
		require.Equal(w, make([]byte, n), mr.Bytes(), "zeroed")
		require.True(w, !w.f.rdma() || mr.Remote(), "allocated memory can be reached")
		mr.Bytes()[n-1] = 1
		require.NoError(w, mr.Close())
		require.ErrorIs(w, mr.Close(), device.ErrClosed)
	}
	mem := fill(make([]byte, 5000), 1)
	for _, a := range []device.Access{0, device.LocalWrite, canRead, canWrite, device.RemoteWrite, allAccess} {
		mr := w.owned(d.Register(mem, a))
		require.Equal(w, &mem[0], &mr.Bytes()[0])
		require.Len(w, mr.Bytes(), len(mem))
		require.True(w, w.f.Hardware || mr.LKey() == uint32(mr.RKey()))
		require.NoError(w, mr.Close())
		require.ErrorIs(w, mr.Close(), device.ErrClosed)
	}
	require.True(w, sameAs(mem, 1, len(mem)), "registered memory is as it was")
}

// regionsRenewed: a closed region becomes one of other memory, on devices that can do that.
func (w *world) regionsRenewed() {
	d := w.f.Devices[0]
	mr := w.owned(d.Register(make([]byte, 100), canRead))
	r, ok := mr.(device.Renewer)
	if !ok {
		return
	}
	mem := make([]byte, 5000)
	key := r.RKey()
	require.Error(w, r.Renew(mem, canWrite), "it is open")
	require.NoError(w, r.Close())
	r.Clear()
	require.Empty(w, r.Bytes())
	require.Error(w, r.Renew(nil, canWrite))
	require.Error(w, r.Renew(mem, 0x80))
	require.ErrorIs(w, r.Close(), device.ErrClosed, "a refusal opens nothing")
	require.NoError(w, r.Renew(mem, canWrite))
	require.Same(w, &mem[0], &r.Bytes()[0])
	require.Len(w, r.Bytes(), len(mem))
	require.NotEqual(w, key, r.RKey())
	require.NoError(w, r.Close())
	require.ErrorIs(w, r.Close(), device.ErrClosed)

	own := w.alloc(0, 100, allAccess).(device.Renewer)
	require.NoError(w, own.Close())
	require.Error(w, own.Renew(mem, canWrite), "it came from Alloc")
}

func (w *world) regionsRefused() {
	d := w.f.Devices[0]
	for _, f := range []func() (device.MR, error){
		func() (device.MR, error) { return d.Register(nil, allAccess) },
		func() (device.MR, error) { return d.Register([]byte{}, allAccess) },
		func() (device.MR, error) { return d.Register(make([]byte, 8), 0x80) },
		func() (device.MR, error) { return d.Alloc(0, allAccess) },
		func() (device.MR, error) { return d.Alloc(-1, allAccess) },
		func() (device.MR, error) { return d.Alloc(8, 0x80) },
		func() (device.MR, error) { return d.Alloc(1<<62, allAccess) },
	} {
		mr, err := f()
		require.Error(w, err)
		require.Nil(w, mr)
	}
}

// regionKeys: keys are not 0, differ while regions are open, and do not reveal the
// next one.
func (w *world) regionKeys() {
	const n = 1000
	mem := make([]byte, 64)
	seen, high := map[uint64]bool{}, map[uint32]bool{}
	var keys []uint64
	var open []device.MR
	for range n {
		mr, err := w.f.Devices[0].Register(mem, allAccess)
		require.NoError(w, err)
		open = append(open, mr)
		k := mr.RKey()
		require.NotZero(w, k)
		require.False(w, seen[k], "key %x twice", k)
		require.Zero(w, k>>62, "the highest two bits are the protocol's")
		seen[k], high[uint32(k)>>24] = true, true
		keys = append(keys, k)
	}
	for _, mr := range open {
		require.NoError(w, mr.Close())
	}
	require.Greater(w, len(high), 200, "values of a byte")
	up, steps := 0, map[uint64]int{}
	for i := 1; i < n; i++ {
		if keys[i] > keys[i-1] {
			up++
		}
		steps[keys[i]-keys[i-1]]++
	}
	require.Greater(w, len(steps), n-10, "steps from key to key")
	require.InDelta(w, n/2, up, n/5, "keys that are larger than the one before")
}

// regionAddresses: no two open regions share an address.
func (w *world) regionAddresses() {
	var open []device.MR
	for i := range 100 {
		open = append(open, w.alloc(0, 1+i*777, allAccess))
	}
	slices.SortFunc(open, func(a, b device.MR) int {
		if a.Addr() < b.Addr() {
			return -1
		}
		return 1
	})
	for i, mr := range open {
		end := mr.Addr() + uint64(len(mr.Bytes()))
		require.Greater(w, end, mr.Addr())
		if i+1 < len(open) {
			require.LessOrEqual(w, end, open[i+1].Addr())
		}
	}
}

func (w *world) regionsKeepDevice() {
	d := w.f.Devices[0]
	a := w.alloc(0, 100, allAccess)
	b, err := d.Register(make([]byte, 100), allAccess)
	require.NoError(w, err)
	require.Error(w, d.Close())
	require.NoError(w, a.Close())
	require.Error(w, d.Close())
	require.NoError(w, b.Close())
	require.NoError(w, d.Close())
	_, err = d.Register(make([]byte, 100), allAccess)
	require.ErrorIs(w, err, device.ErrClosed)
	_, err = d.Alloc(100, allAccess)
	require.ErrorIs(w, err, device.ErrClosed)
}
