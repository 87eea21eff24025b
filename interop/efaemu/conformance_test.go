//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/devicetest"
)

// onCard is set in the process that runs the suite.
const onCard = "EFACTOR_EFAEMU_TEST_ON_CARD"

// TestConformance runs the suite of drivers in a process under the supervisor: the driver, as
// programs have it, on the files of the system. All devices are of one card.
func TestConformance(t *testing.T) {
	if os.Getenv(onCard) == "" {
		needFeatures(t)
		t.Setenv(onCard, "1")
		status, text, log := efaemu(t, "run", "-v", "-profile", "rdma-write", fabric(t), "--",
			os.Args[0], "-test.run", "^TestConformance$", "-test.short", "-test.v", "-test.timeout", "5m")
		require.Zero(t, status, "%s%s", text, log)
		require.Regexp(t, `(?m)^--- PASS: TestConformance `, text)
		require.Regexp(t, `[0-9]{3,} packets sent`, log, "by the card")
		return
	}
	devicetest.RunPart(t, 2, 5, func(tb testing.TB, devices int) *devicetest.Fabric {
		f := &devicetest.Fabric{Hardware: true, OneGID: true}
		for range devices {
			d, err := efa.OpenDevice("efa")
			require.NoError(tb, err)
			tb.Cleanup(func() { _ = d.Close() }) // the case may have done it
			f.Devices = append(f.Devices, d)
		}
		return f
	})
}
