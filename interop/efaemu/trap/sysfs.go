//go:build linux && (amd64 || arm64)

package trap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// Names in the tree.
const (
	ibName = "efa_0"
	pciDir = "devices/pci0000:00/0000:00:06.0"
)

// makeSysfs makes the part of sysfs that describes the device (uverbs), in a new
// directory.
func makeSysfs(gid device.GID, partID uint32) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "efaemu-"); err != nil {
		return "", fmt.Errorf("trap: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("trap: %w", err), os.RemoveAll(dir))
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // the program may change its user
		return "", err
	}
	for path, text := range sysfsFiles(gid, partID) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			return "", err
		}
	}
	for path, target := range map[string]string{
		"class/infiniband/" + ibName + "/device": "../../../" + pciDir,
		"class/infiniband_verbs/uverbs0/device":  "../../../" + pciDir,
		pciDir + "/driver":                       "../../../bus/pci/drivers/efa",
		"bus/pci/devices/0000:00:06.0":           "../../../" + pciDir,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.Symlink(target, path); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func sysfsFiles(gid device.GID, partID uint32) map[string]string {
	const verbs, ib, port = "class/infiniband_verbs/", "class/infiniband/" + ibName + "/", "class/infiniband/" + ibName + "/ports/1/"
	groups := fmt.Sprintf("%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x",
		gid[0], gid[1], gid[2], gid[3], gid[4], gid[5], gid[6], gid[7],
		gid[8], gid[9], gid[10], gid[11], gid[12], gid[13], gid[14], gid[15])
	return map[string]string{
		verbs + "abi_version":         strconv.Itoa(abi.CoreVersion),
		verbs + "uverbs0/abi_version": strconv.Itoa(abi.DriverVersion),
		verbs + "uverbs0/dev":         fmt.Sprintf("%d:%d", devMajor, devMinor),
		verbs + "uverbs0/ibdev":       ibName,

		ib + "node_type":    "7: unspecified",
		ib + "node_guid":    "0000:0000:0000:0000",
		port + "gids/0":     groups,
		ib + "fw_ver":       "", // as EFA's driver leaves it
		port + "rate":       "100 Gb/sec (4X EDR)",
		port + "state":      "4: ACTIVE",
		port + "phys_state": "5: LinkUp",
		port + "link_layer": "Unspecified",
		port + "pkeys/0":    "0xffff",

		pciDir + "/vendor":                 "0x1d0f",
		pciDir + "/device":                 fmt.Sprintf("0x%04x", partID),
		pciDir + "/class":                  "0x020000",
		pciDir + "/numa_node":              "-1",
		pciDir + "/modalias":               fmt.Sprintf("pci:v00001D0Fd%08Xsv00001D0Fsd%08Xbc02sc00i00", partID, partID),
		"bus/pci/drivers/efa/module_alias": "efa",
	}
}
