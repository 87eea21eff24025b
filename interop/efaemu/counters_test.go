//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// TestCounters: what each counter is made of.
func TestCounters(t *testing.T) {
	var s engine.Stats
	s.Sent[abi.WorkSend] = [32]uint64{device.StatusOK: 5, device.StatusRNR: 2}
	s.Sent[abi.WorkRead] = [32]uint64{device.StatusOK: 3, device.StatusBadAddress: 1}
	s.Sent[abi.WorkWrite] = [32]uint64{device.StatusOK: 1}
	s.Received[abi.WorkSend] = [32]uint64{device.StatusOK: 4}
	s.SentBytes, s.ReadBytes, s.WrittenBytes, s.ReceivedBytes, s.Dropped, s.Pieces = 1000, 300, 200, 70, 6, 9
	got := counters(&s, kernel.Commands{Completed: 20, Failed: 7, PDs: 1, MRs: 2, AHs: 3, CQs: 4, QueuePairs: 5, Contexts: 6})
	for name, want := range map[string]uint64{
		"send_wrs": 7, "send_bytes": 500, "recv_wrs": 4, "recv_bytes": 70, "rx_drops": 6,
		"rdma_read_wrs": 4, "rdma_read_bytes": 300, "rdma_read_wr_err": 1,
		"rdma_write_wrs": 1, "rdma_write_bytes": 200, "rdma_write_wr_err": 0,
		"tx_bytes": 700, "rx_bytes": 370,
	} {
		require.Equal(t, want, got["ports/1/hw_counters/"+name], name)
	}
	for name, want := range map[string]uint64{
		"completed_cmds": 20, "cmds_err": 7, "alloc_pd_err": 1, "reg_mr_err": 2, "create_ah_err": 3, "create_cq_err": 4,
		"create_qp_err": 5, "alloc_ucontext_err": 6,
	} {
		require.Equal(t, want, got["hw_counters/"+name], name)
	}
}

// TestCountersOfProgram: a program that uses the device moves them.
func TestCountersOfProgram(t *testing.T) {
	const cat = "cat $SYSFS_PATH/class/infiniband/efa_0/hw_counters/completed_cmds; "
	status, out, log := efaemu(t, "run", fabric(t), "--", "sh", "-c",
		cat+os.Args[0]+"; "+cat+"cat $SYSFS_PATH/class/infiniband/efa_0/ports/1/hw_counters/*")
	require.Zero(t, status, log)
	words := strings.Fields(out)
	require.Equal(t, []string{"0", "2"}, words[:2], "a context and a protection domain")
	require.Len(t, words[2:], 17)
}
