//go:build unix

package sysfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/fakesysfs"
)

func host(f *fakesysfs.Tree) Host { return Host{Root: f.Dir} }

// TestList: everything that sysfs says of a card, and of one that another vendor made
// nothing.
func TestList(t *testing.T) {
	f := fakesysfs.New(t)
	ib, _, pci := f.Card(0, "rdmap0s6")
	f.File(ib+"/fw_ver", "1.2.3")
	f.File(ib+"/ports/1/rate", "2.5 Gb/sec (1X SDR)")
	f.File(pci+"/numa_node", "1")
	_, _, other := f.Card(1, "mlx5_0")
	f.File(other+"/vendor", "0x15b3")
	f.Remove(other + "/driver")

	found, err := host(f).List()
	require.NoError(t, err)
	require.Empty(t, found.Skipped)
	require.NoError(t, found.Err())
	require.Equal(t, []NIC{{
		Name: "rdmap0s6", Uverbs: "/dev/infiniband/uverbs0", Major: 231, Minor: 192,
		GIDs: []device.GID{{0: 0xfe, 1: 0x80, 14: 0x12}}, Active: true,
		PCI: "0000:00:06.0", VendorID: 0x1d0f, DeviceID: 0xefa1, NUMANode: 1,
		LinkSpeed: 2_500_000_000, Firmware: "1.2.3",
	}}, found.NICs)
}

// TestDriverNames: a card with ids of which this module does not know is found by the name
// of its driver, and one with a driver of another name by its ids.
func TestDriverNames(t *testing.T) {
	f := fakesysfs.New(t)
	_, _, pci := f.Card(0, "efa_0")
	f.File(pci+"/device", "0xf00d")
	_, _, pci = f.Card(1, "efa_1")
	f.Remove(pci + "/driver")
	found, err := host(f).List()
	require.NoError(t, err)
	require.Empty(t, found.Skipped)
	require.Len(t, found.NICs, 2)
	require.Equal(t, uint16(0xf00d), found.NICs[0].DeviceID)
}

// TestSort: active ports, then the near ones, then the fast ones, then by name.
func TestSort(t *testing.T) {
	nics := []NIC{
		{Name: "down", NUMANode: 1, LinkSpeed: 400},
		{Name: "b", Active: true, NUMANode: Unknown, LinkSpeed: 100},
		{Name: "a", Active: true, NUMANode: Unknown, LinkSpeed: 100},
		{Name: "fast", Active: true, NUMANode: 0, LinkSpeed: 200},
		{Name: "near", Active: true, NUMANode: 1, LinkSpeed: 25},
	}
	names := func(near int) string {
		Sort(nics, near)
		var s []string
		for _, n := range nics {
			s = append(s, n.Name)
		}
		return strings.Join(s, " ")
	}
	assert.Equal(t, "near fast a b down", names(1))
	assert.Equal(t, "fast a b near down", names(Unknown))
	assert.Equal(t, "fast a b near down", names(0))
}

// TestNear: the node of this process is the one that all its CPUs are on.
func TestNear(t *testing.T) {
	f := fakesysfs.New(t)
	near := func() int {
		r, err := os.OpenRoot(f.Dir)
		require.NoError(t, err)
		defer r.Close()
		return (&lister{tree: tree{r}}).near()
	}
	require.Equal(t, Unknown, near(), "without nodes")
	f.File("devices/system/node/node1/cpulist", "0-1048576")
	f.File("devices/system/node/node0/cpulist", "")
	f.File("devices/system/node/nodeX/cpulist", "0-1048576")
	f.File("devices/system/node/possible", "0-1")
	require.Equal(t, 1, near())
	f.File("devices/system/node/node0/cpulist", "0-1048576")
	require.Equal(t, Unknown, near(), "both")

	assert.True(t, anyOf([]int{7}, "0-3,7"))
	assert.True(t, anyOf([]int{1, 2}, "2-2"))
	assert.False(t, anyOf([]int{4}, "0-3,x-9,5-4,-,4-999999999999999999999,"))
}

// TestLies: whatever a file says, the card is left out with a reason of one line that
// names the file, or what it describes is unknown.
func TestLies(t *testing.T) {
	const ib, verbs, pci = "devices/pci0000:00/0000:00:06.0/infiniband/efa_0",
		"devices/pci0000:00/0000:00:06.0/infiniband_verbs/uverbs0", "devices/pci0000:00/0000:00:06.0"
	huge := strings.Repeat("9", 1<<20)
	for name, c := range map[string]struct {
		file, text string // "": the file is gone
		skip, odd  string
	}{
		"no name":           {file: verbs + "/ibdev", skip: "no such file"},
		"name of a path":    {verbs + "/ibdev", "../../../etc", "is no name", ""},
		"name of a folder":  {verbs + "/ibdev", "..", "is no name", ""},
		"long name":         {verbs + "/ibdev", strings.Repeat("a", 64), "is no name", ""},
		"huge name":         {verbs + "/ibdev", huge, "more than 4096 bytes", ""},
		"no number":         {file: verbs + "/dev", skip: "no such file"},
		"half a number":     {verbs + "/dev", "231", "is no number", ""},
		"large number":      {verbs + "/dev", "231:99999999", "is no number", ""},
		"negative number":   {verbs + "/dev", "-1:1", "is no number", ""},
		"old module":        {verbs + "/abi_version", "0", `ABI version "0", want 1`, ""},
		"module in words":   {verbs + "/abi_version", "one", `ABI version "one", want 1`, ""},
		"no module version": {file: verbs + "/abi_version", skip: "no such file"},
		"no vendor":         {file: pci + "/vendor", skip: "no such file"},
		"odd vendor":        {pci + "/vendor", "1d0f", "no number of 16 bits", ""},
		"long vendor":       {pci + "/vendor", "0x1d0f1d0f", "no number of 16 bits", ""},
		"odd id":            {pci + "/device", "0x", "no number of 16 bits", ""},
		"no GID":            {file: ib + "/ports/1/gids/0", skip: "no such file"},
		"GID of zeros":      {ib + "/ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000", "has no address", ""},
		"short GID":         {ib + "/ports/1/gids/0", "fe80::1", "is no GID", ""},
		"GID in words":      {ib + "/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:000g", "is no GID", ""},
		"uneven GID":        {ib + "/ports/1/gids/0", "fe8:00000:0000:0000:0000:0000:0000:0001", "is no GID", ""},
		"bytes":             {ib + "/ports/1/gids/0", "fe80\x1b[2J", "byte 0x1b", ""},
		"no rate":           {file: ib + "/ports/1/rate"},
		"odd rate":          {ib + "/ports/1/rate", "fast", "", "is no rate"},
		"huge rate":         {ib + "/ports/1/rate", huge[:30] + " Gb/sec", "", "is no rate"},
		"no state":          {file: ib + "/ports/1/state"},
		"odd state":         {ib + "/ports/1/state", "ACTIVE", "", "is no number"},
		"no node":           {file: pci + "/numa_node"},
		"odd node":          {pci + "/numa_node", "-2", "", "is no number"},
		"huge firmware":     {ib + "/fw_ver", huge, "", "more than 4096 bytes"},
		"no firmware":       {file: ib + "/fw_ver"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fakesysfs.New(t)
			f.Card(0, "efa_0")
			if c.text == "" {
				f.Remove(c.file)
			} else {
				f.File(c.file, c.text)
			}
			found, err := host(f).List()
			require.NoError(t, err)
			if c.skip == "" {
				require.Len(t, found.NICs, 1)
				n := found.NICs[0]
				if c.odd == "" {
					require.Empty(t, n.Odd)
					return
				}
				require.Len(t, n.Odd, 1)
				require.Contains(t, n.Odd[0], c.odd)
				return
			}
			require.Empty(t, found.NICs)
			require.Len(t, found.Skipped, 1)
			require.ErrorContains(t, found.Err(), c.skip)
			require.NotContains(t, found.Err().Error(), "\n")
			require.Less(t, len(found.Err().Error()), 400)
		})
	}
}

// TestFiles: what is no file of the kernel's does not hold the list up, lead it out of the
// tree, or end it.
func TestFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("fe80:0000:0000:0000:0000:0000:0000:0001"), 0o600))
	for name, c := range map[string]struct {
		change func(t *testing.T, at string)
		want   string
	}{
		"loop":        {func(t *testing.T, at string) { require.NoError(t, os.Symlink("0", at)) }, "too many levels"},
		"out of it":   {func(t *testing.T, at string) { require.NoError(t, os.Symlink(secret, at)) }, "escapes"},
		"out by dots": {func(t *testing.T, at string) { require.NoError(t, os.Symlink(strings.Repeat("../", 40)+secret, at)) }, "escapes"},
		"folder":      {func(t *testing.T, at string) { require.NoError(t, os.Mkdir(at, 0o755)) }, "it is no file"},
		"FIFO":        {func(t *testing.T, at string) { require.NoError(t, syscall.Mkfifo(at, 0o644)) }, "it is no file"},
		"nothing":     {func(t *testing.T, at string) { require.NoError(t, os.WriteFile(at, nil, 0o644)) }, "it is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fakesysfs.New(t)
			ib, _, _ := f.Card(0, "efa_0")
			f.Card(1, "efa_1")
			gids := filepath.Join(f.Dir, ib, "ports/1/gids/0")
			require.NoError(t, os.Remove(gids))
			c.change(t, gids)
			found, err := host(f).List()
			require.NoError(t, err)
			require.Len(t, found.NICs, 1, "the other card is there")
			require.Len(t, found.Skipped, 1)
			require.Equal(t, "efa_0", found.Skipped[0].Name)
			require.ErrorContains(t, found.Skipped[0].Why, c.want)
		})
	}

	f := fakesysfs.New(t)
	for i := range maxDevices {
		f.File("class/infiniband_verbs/"+strconv.Itoa(i), "")
	}
	_, err := host(f).List()
	require.ErrorContains(t, err, "more than 256 entries")

	f = fakesysfs.New(t)
	f.Remove("class")
	f.Link("class", "class")
	_, err = host(f).List()
	require.ErrorContains(t, err, "sysfs must be readable")
	_, err = Host{Root: secret}.List()
	require.ErrorIs(t, err, ErrNoDevice)
	require.ErrorContains(t, err, "not a directory")
}

// TestTwice: two device files of one name are one device.
func TestTwice(t *testing.T) {
	f := fakesysfs.New(t)
	f.Card(0, "efa_0")
	_, verbs, _ := f.Card(1, "efa_1")
	f.File(verbs+"/ibdev", "efa_0")
	found, err := host(f).List()
	require.NoError(t, err)
	require.Len(t, found.NICs, 1)
	require.ErrorContains(t, found.Skipped[0].Why, "efa_0 is another's device")
}

// TestRoot: which tree it is.
func TestRoot(t *testing.T) {
	t.Setenv("SYSFS_PATH", "/elsewhere")
	require.Equal(t, "/elsewhere", Host{}.Where())
	require.Equal(t, "/here", Host{Root: "/here"}.Where())
	t.Setenv("SYSFS_PATH", "")
	require.Equal(t, "/sys", Host{}.Where())
	require.Equal(t, "/dev/infiniband", Host{}.dev())
}

// TestClone: a copy shares nothing.
func TestClone(t *testing.T) {
	a := NIC{Name: "efa_0", GIDs: []device.GID{{1}}, Odd: []string{"x"}, LinkSpeed: 1}
	b := a.Clone()
	require.Equal(t, a, b)
	b.GIDs[0][0], b.Odd[0] = 2, "y"
	require.Equal(t, NIC{Name: "efa_0", GIDs: []device.GID{{1}}, Odd: []string{"x"}, LinkSpeed: 1}, a)
}

// FuzzText: whatever one file says, a list ends, and what is listed has what a driver needs.
func FuzzText(f *testing.F) {
	for i, s := range []string{
		"efa_0", "231:192", "1", "6", "0x1d0f", "0xefa1", "-1", "fe80:0000:0000:0000:0000:0000:0000:0001", "4: ACTIVE", "100 Gb/sec (4X EDR)",
	} {
		f.Add(uint8(i), s)
		f.Add(uint8(i), "../"+s)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		k := fakesysfs.New(t)
		ib, verbs, pci := k.Card(0, "efa_0")
		files := []string{
			verbs + "/ibdev", verbs + "/dev", verbs + "/abi_version", "class/infiniband_verbs/abi_version", pci + "/vendor", pci + "/device",
			pci + "/numa_node", ib + "/ports/1/gids/0", ib + "/ports/1/state", ib + "/ports/1/rate",
		}
		k.File(files[int(which)%len(files)], text)
		found, err := host(k).List()
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		for _, s := range found.Skipped {
			require.NotContains(t, s.Why.Error(), "\n")
		}
		for _, n := range found.NICs {
			require.True(t, isName(n.Name), n.Name)
			require.Len(t, n.GIDs, 1)
			require.True(t, isPCI(n.PCI), n.PCI)
			require.GreaterOrEqual(t, n.LinkSpeed, int64(0))
			require.GreaterOrEqual(t, n.NUMANode, Unknown)
		}
	})
}
