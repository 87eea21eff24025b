//go:build linux && (amd64 || arm64)

package main

import (
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// counters are the hardware counters that EFA's driver has in sysfs, by their place below
// the RDMA device. What others read or write by RDMA passes the engine by: that is 0 here.
func counters(s *engine.Stats, c kernel.Commands) map[string]uint64 {
	var wrs, failed [abi.WorkWrite + 1]uint64
	for kind := range wrs {
		for status, n := range s.Sent[kind] {
			wrs[kind] += n
			if status != 0 {
				failed[kind] += n
			}
		}
	}
	read, written := s.ReadBytes, s.WrittenBytes
	sent := s.SentBytes - read - written
	var received uint64
	for _, n := range s.Received[abi.WorkSend] {
		received += n
	}
	all := make(map[string]uint64)
	for name, n := range map[string]uint64{
		"tx_bytes": sent + written, "tx_pkts": wrs[abi.WorkSend] + s.Pieces,
		"rx_bytes": s.ReceivedBytes + read, "rx_pkts": received, "rx_drops": s.Dropped,
		"send_bytes": sent, "send_wrs": wrs[abi.WorkSend],
		"recv_bytes": s.ReceivedBytes, "recv_wrs": received,
		"rdma_read_wrs": wrs[abi.WorkRead], "rdma_read_bytes": read, "rdma_read_wr_err": failed[abi.WorkRead], "rdma_read_resp_bytes": 0,
		"rdma_write_wrs": wrs[abi.WorkWrite], "rdma_write_bytes": written, "rdma_write_wr_err": failed[abi.WorkWrite], "rdma_write_recv_bytes": 0,
	} {
		all["ports/1/hw_counters/"+name] = n
	}
	for name, n := range map[string]uint64{
		"submitted_cmds": c.Completed, "completed_cmds": c.Completed, "cmds_err": c.Failed, "no_completion_cmds": 0, "keep_alive_rcvd": 0,
		"alloc_pd_err": c.PDs, "create_qp_err": c.QueuePairs, "create_cq_err": c.CQs, "reg_mr_err": c.MRs,
		"alloc_ucontext_err": c.Contexts, "create_ah_err": c.AHs, "mmap_err": 0,
	} {
		all["hw_counters/"+name] = n
	}
	return all
}
