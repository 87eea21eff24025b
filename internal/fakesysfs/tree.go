package fakesysfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tree is a sysfs in a folder of a test.
type Tree struct {
	t   testing.TB
	Dir string
}

// New makes the class of uverbs devices and nothing else.
func New(t testing.TB) *Tree {
	f := &Tree{t, t.TempDir()}
	f.File("class/infiniband_verbs/abi_version", "6")
	return f
}

// File writes a file; it may be there.
func (f *Tree) File(name, text string) {
	f.t.Helper()
	at := filepath.Join(f.Dir, name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(f.t, os.WriteFile(at, []byte(text+"\n"), 0o644))
}

// Link makes a symbolic link.
func (f *Tree) Link(name, target string) {
	f.t.Helper()
	at := filepath.Join(f.Dir, name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(f.t, os.Symlink(target, at))
}

// Remove removes a file, link or folder.
func (f *Tree) Remove(name string) {
	f.t.Helper()
	require.NoError(f.t, os.RemoveAll(filepath.Join(f.Dir, name)))
}

// Card adds the EFA device with number i, laid out as Linux does: the class has links, and
// the RDMA device is below its PCI function. The results are the folders of the RDMA
// device, of the uverbs device and of the function.
func (f *Tree) Card(i int, name string) (ib, verbs, pci string) {
	f.t.Helper()
	pci = fmt.Sprintf("devices/pci0000:00/0000:00:%02x.0", 6+i)
	v := fmt.Sprintf("uverbs%d", i)
	ib, verbs = pci+"/infiniband/"+name, pci+"/infiniband_verbs/"+v
	f.Link("class/infiniband/"+name, "../../"+ib)
	f.Link("class/infiniband_verbs/"+v, "../../"+verbs)
	f.Link("bus/pci/devices/"+filepath.Base(pci), "../../../"+pci)
	f.Link(pci+"/driver", "../../../bus/pci/drivers/efa")
	f.Link(ib+"/device", "../../../"+filepath.Base(pci))
	f.Link(verbs+"/device", "../../../"+filepath.Base(pci))
	f.File("bus/pci/drivers/efa/bind", "")
	for path, text := range map[string]string{
		verbs + "/ibdev": name, verbs + "/dev": fmt.Sprintf("231:%d", 192+i), verbs + "/abi_version": "1",
		ib + "/fw_ver": "", ib + "/ports/1/state": "4: ACTIVE", ib + "/ports/1/rate": "100 Gb/sec (4X EDR)",
		ib + "/ports/1/gids/0": fmt.Sprintf("fe80:0000:0000:0000:0000:0000:0000:%04x", 0x1200+i),
		pci + "/vendor":        "0x1d0f", pci + "/device": "0xefa1", pci + "/numa_node": "-1",
	} {
		f.File(path, text)
	}
	return ib, verbs, pci
}
