package efatest_test

import (
	"maps"
	"slices"
	"testing"
)

// What must have happened in the seeds that the plain test plays, and a hundred
// times in ten thousand: every fault, every kind of packet that is built, every
// step of the machines of ope that a peer which keeps to the protocol can cause.
var common = []string{
	"fault.RNR", "fault.delay", "fault.late status", "fault.queue full", "fault.refuse queue pair",
	"fault.unknown sender",

	"PacketsRecv.CTS", "PacketsRecv.CTSDATA", "PacketsRecv.EAGER_MSGRTM", "PacketsRecv.EAGER_RTW",
	"PacketsRecv.EAGER_TAGRTM", "PacketsRecv.HANDSHAKE", "PacketsRecv.LONGCTS_MSGRTM",
	"PacketsRecv.LONGCTS_TAGRTM", "PacketsRecv.MEDIUM_MSGRTM", "PacketsRecv.MEDIUM_TAGRTM",

	"Backoffs", "BackoffsCut", "HandshakesSent", "OutOfOrder", "Overflow", "PeersFailed", "Probes", "Resent",
	"Unexpected", "Queue.RNR", "Queue.SlotWaits", "Queue.Stalled",

	"rx.RXE_INIT match", "rx.RXE_INIT no-recv", "rx.RXE_MATCHED fail", "rx.RXE_MATCHED last",
	"rx.RXE_UNEXP fail", "rx.RXE_UNEXP match",
	"tx.OPE_SEND acked", "tx.OPE_SEND paused", "tx.OPE_SEND posted", "tx.OPE_SEND posted-all",
	"tx.TXE_DRAIN acked", "tx.TXE_DRAIN acked-all", "tx.TXE_DRAIN fail", "tx.TXE_REQ acked", "tx.TXE_REQ fail",
	"tx.TXE_REQ paused", "tx.TXE_REQ posted", "tx.TXE_REQ posted-all", "tx.TXE_WAIT acked", "tx.TXE_WAIT cts",
	"tx.TXE_WAIT fail", "tx.OPE_ERR fail",

	"again", "closed", "killed", "restarted", "removed", "inject", "refused",
	"send ok", "send canceled", "send failed",
	"recv ok", "recv truncated", "recv canceled", "recv failed", "recv unlisted",
	"event peer failed", "event new peer",
}

// rare is what only many seeds bring about. In no list: RXE_INIT fail, a peer that
// fails between the two words of its endpoint on one message; OPE_ERR cts, a
// CTS for a message that failed without its peer; and what counts packets that
// nobody here sends, bad ones and those of former endpoints. The scenarios of
// package endpoint have those.
var rare = []string{
	"event memory pressure", "event memory relieved",
	"tx.OPE_SEND fail", "tx.OPE_ERR acked", "PeerDown",
}

// defaultSeeds is what CI plays, and enough for all of common.
const defaultSeeds = 120

func judgeCoverage(t *testing.T, total map[string]uint64, count int) {
	want, names := uint64(1), common
	switch {
	case count < defaultSeeds:
		return // a few seeds, or with the race detector
	case count >= 10000:
		want, names = 100, append(slices.Clone(common), rare...)
	}
	for _, name := range names {
		if total[name] < want {
			t.Errorf("%d seeds: %q happened %d times, not %d", count, name, total[name], want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%12d %s", total[name], name)
	}
}
