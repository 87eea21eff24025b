package sysfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fake is a sysfs in a folder of the test.
type fake struct {
	t   testing.TB
	dir string
}

// newFake has the uverbs class and nothing else.
func newFake(t testing.TB) *fake {
	f := &fake{t, t.TempDir()}
	f.file("class/infiniband_verbs/abi_version", "6")
	return f
}

func (f *fake) host() Host { return Host{Root: f.dir, Dev: "/dev/infiniband"} }

// file writes a file; it may be there.
func (f *fake) file(name, text string) {
	f.t.Helper()
	at := filepath.Join(f.dir, name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(f.t, os.WriteFile(at, []byte(text+"\n"), 0o644))
}

func (f *fake) link(name, target string) {
	f.t.Helper()
	at := filepath.Join(f.dir, name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(f.t, os.Symlink(target, at))
}

func (f *fake) remove(name string) { require.NoError(f.t, os.RemoveAll(filepath.Join(f.dir, name))) }

// card adds a device with number i, laid out as Linux does: the class has links, the
// RDMA device is below its PCI function.
func (f *fake) card(i int, name string) (ib, verbs, pci string) {
	f.t.Helper()
	pci = fmt.Sprintf("devices/pci0000:00/0000:00:%02x.0", 6+i)
	v := fmt.Sprintf("uverbs%d", i)
	ib, verbs = pci+"/infiniband/"+name, pci+"/infiniband_verbs/"+v
	f.link("class/infiniband/"+name, "../../"+ib)
	f.link("class/infiniband_verbs/"+v, "../../"+verbs)
	f.link("bus/pci/devices/"+filepath.Base(pci), "../../../"+pci)
	f.link(pci+"/driver", "../../../bus/pci/drivers/efa")
	f.link(ib+"/device", "../../../"+filepath.Base(pci))
	f.link(verbs+"/device", "../../../"+filepath.Base(pci))
	f.file("bus/pci/drivers/efa/bind", "")
	for path, text := range map[string]string{
		verbs + "/ibdev": name, verbs + "/dev": fmt.Sprintf("231:%d", 192+i), verbs + "/abi_version": "1",
		ib + "/fw_ver": "", ib + "/ports/1/state": "4: ACTIVE", ib + "/ports/1/rate": "100 Gb/sec (4X EDR)",
		ib + "/ports/1/gids/0": fmt.Sprintf("fe80:0000:0000:0000:0000:0000:0000:%04x", 0x1200+i),
		pci + "/vendor":        "0x1d0f", pci + "/device": "0xefa1", pci + "/numa_node": "-1",
	} {
		f.file(path, text)
	}
	return ib, verbs, pci
}
