package emulator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/emulator"
)

func TestCommand(t *testing.T) {
	p := emulator.Program("/bin/efaemu")
	require.Equal(t, strings.Fields("/bin/efaemu run -fabric /dev/shm/x -rdma-read=false -- prog -a b"),
		p.Command(emulator.Device{Fabric: "/dev/shm/x"}, "prog", "-a", "b"))
	require.Equal(t, strings.Fields("/bin/efaemu run -fabric d -rdma-read=true -profile small -shuffle 8 -seed 7 -- prog"),
		p.Command(emulator.Device{Fabric: "d", RDMARead: true, Profile: "small", Shuffle: 8, Seed: 7}, "prog"))
}
