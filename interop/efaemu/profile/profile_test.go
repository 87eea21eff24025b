package profile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

func TestNamed(t *testing.T) {
	names := List()
	require.Equal(t, "efa", names[0])
	for _, name := range names {
		p, err := Named(name)
		require.NoError(t, err)
		assert.Equal(t, name, p.Name)
		assert.NoError(t, p.Validate())
		assert.NotEmpty(t, Describe(name))
	}
	p, err := Named("efa")
	require.NoError(t, err)
	assert.Equal(t, Default(), p)
	_, err = Named("ena")
	assert.ErrorContains(t, err, strings.Join(names, ", "))
	assert.Empty(t, Describe("ena"))
}

// TestWhatLibfabricNeeds: applications ask for completion queues of 16384 entries, which
// libfabric 2.x hands on; 1.17 crashes without 8192. Its own buffers take a few regions
// for each endpoint. No card writes by RDMA and does not read: 2.x aborts when it shall
// use RDMA there, so no profile is such a card.
func TestWhatLibfabricNeeds(t *testing.T) {
	for _, name := range List() {
		p, err := Named(name)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, p.MaxCQE, uint32(16384), name)
		assert.GreaterOrEqual(t, p.MaxMR, uint32(32), name)
		assert.True(t, p.RDMARead || !p.RDMAWrite, name)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Profile)
	}{
		{"kernel: 2", func(p *Profile) { p.Kernel = 2 }},
		{"part id: 0x1", func(p *Profile) { p.PartID = 1 }},
		{"RDMA write takes the newest kernel", func(p *Profile) { p.RDMAWrite = true }},
		{"unsolicited writes take RDMA write", func(p *Profile) { p.UnsolicitedWrite = true }},
		{"RDMA of 0 bytes", func(p *Profile) { p.MaxRDMA = 0 }},
		{"send queue: 0", func(p *Profile) { p.MaxSQ, p.MaxQPWR = 0, 0 }},
		{"send queue: 65536", func(p *Profile) { p.MaxSQ = 65536 }},
		{"receive queue: 65536", func(p *Profile) { p.MaxRQ = 65536 }},
		{"work requests: 4097 is not between 1 and 4096", func(p *Profile) { p.MaxQPWR = 4097 }},
		{"segments of a send: 3", func(p *Profile) { p.MaxSGESQ = 3 }},
		{"segments of a receive: 0", func(p *Profile) { p.MaxSGERQ = 0 }},
		{"queue pairs: 0", func(p *Profile) { p.MaxQP = 0 }},
		{"completion queues: 70000", func(p *Profile) { p.MaxCQ = 70000 }},
		{"entries: 100 is no power of two", func(p *Profile) { p.MaxCQE = 100 }},
		{"entries: 65536", func(p *Profile) { p.MaxCQE = 65536 }},
		{"memory regions: 0", func(p *Profile) { p.MaxMR = 0 }},
		{"protection domains: 0", func(p *Profile) { p.MaxPD = 0 }},
		{"address handles: 65536", func(p *Profile) { p.MaxAH = 65536 }},
		{"bytes of send queue: 10", func(p *Profile) { p.MaxLLQ = 10 }},
		{"least send queue: 5000", func(p *Profile) { p.MinSQ = 5000 }},
		{"sub-CQs: 0", func(p *Profile) { p.SubCQs = 0 }},
		{"bytes inline: 33", func(p *Profile) { p.Inline = 33 }},
		{"WQEs of 128 bytes take the newest kernel", func(p *Profile) { p.InlineEx = 80 }},
		{"bytes inline of 128: 81", func(p *Profile) { p.Kernel, p.InlineEx = Newest, 81 }},
		{"bytes inline of 128: 31", func(p *Profile) { p.Kernel, p.InlineEx = Newest, 31 }},
		{"completion vectors: 0", func(p *Profile) { p.CompVectors = 0 }},
	} {
		p := Default()
		c.change(&p)
		assert.ErrorContains(t, p.Validate(), "profile efa: "+c.want)
	}
	p := Default()
	p.MaxQP, p.SubCQs = 0, 0
	assert.ErrorContains(t, p.Validate(), "queue pairs")
	assert.ErrorContains(t, p.Validate(), "sub-CQs", "all that is wrong")
}

// fabric is a device that says info.
type fabric struct {
	device.Device
	info device.Info
}

func (f fabric) Info() device.Info { return f.info }

// lender can reach others' memory, too.
type lender struct{ fabric }

func (l lender) Info() device.Info {
	l.info.Foreign = true
	return l.info
}

func TestFor(t *testing.T) {
	write, err := Named("rdma-write")
	require.NoError(t, err)
	all := fabric{info: device.Info{RDMARead: true, RDMAWrite: true, MaxRDMA: 1 << 20, MaxSQ: 100, MaxRQ: 8192, MaxQP: 10}}

	got := For(write, lender{all})
	want := write
	want.MaxSQ, want.MaxRQ, want.MaxQP, want.MaxQPWR = 100, 8192, 10, 100
	assert.Equal(t, want, got)
	assert.NoError(t, got.Validate())

	got = For(write, all)
	assert.False(t, got.RDMARead || got.RDMAWrite || got.UnsolicitedWrite, "others' memory is out of reach")
	assert.Zero(t, got.MaxRDMA)
	assert.NoError(t, got.Validate())

	all.info.RDMAWrite = false
	got = For(write, lender{all})
	assert.True(t, got.RDMARead)
	assert.False(t, got.RDMAWrite || got.UnsolicitedWrite)
	all.info.RDMARead = false
	assert.Zero(t, For(write, lender{all}).MaxRDMA)

	assert.Equal(t, Default(), Default().Within(device.Info{RDMARead: true}), "a device that doesn't say has no limits")
	small := write
	small.MinSQ = 200
	assert.EqualValues(t, 100, small.Within(device.Info{MaxSQ: 100}).MinSQ)
}
