//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/trap"
)

// report prints what was counted.
func report(w io.Writer, calls *trap.Stats, s engine.Stats) {
	line := func(what string, n uint64) {
		if n != 0 {
			fmt.Fprintf(w, "efaemu: %12d %s\n", n, what)
		}
	}
	line("opens of the device", calls.Opens.Load())
	line("looks at the device's files", calls.Looks.Load())
	line("ioctls", calls.Ioctls.Load())
	line("writes to the device's files", calls.Writes.Load())
	line("other calls that were trapped", calls.Through.Load())
	for kind, byStatus := range s.Sent {
		for status, n := range byStatus {
			line(work(kind, "sent", status), n)
		}
	}
	for kind, byStatus := range s.Received {
		for status, n := range byStatus {
			line(work(kind, "received", status), n)
		}
	}
	line("bytes sent", s.SentBytes)
	line("bytes received", s.ReceivedBytes)
	line("pieces of RDMA", s.Pieces)
	line("sends repeated because the receiver was not ready", s.Retries)
	line("times that the fabric's queue was full", s.Stalls)
	line("receives from senders without address handle", s.UnknownSenders)
	line("completion events", s.Events)
	line("completion queues overrun", s.Overruns)
	line("arrivals that nobody could take", s.Dropped)
	line("deaths of others", s.Gone)
	line("RDMA requests of others refused", s.Refused)
}

// work names completions.
func work(kind int, did string, status int) string {
	what := map[int]string{int(abi.WorkRead): "RDMA reads", int(abi.WorkWrite): "RDMA writes"}[kind]
	if what == "" {
		what = "packets"
	}
	if status == int(device.StatusOK) {
		return what + " " + did
	}
	return fmt.Sprintf("%s %s, status %d: %v", what, did, status, device.Status(status))
}
