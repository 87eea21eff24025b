package efatest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Events that must have happened in the seeds of the plain test, and a hundred
// times in a thousand: every fault, every subprotocol, every kind of packet, every
// step of the machines of ope that a peer which keeps to the protocol can cause.
var common = slices.Concat(of("fault.",
	"RNR", "delay", "late status", "queue full", "refuse address handle", "refuse memory region", "refuse queue pair", "status",
	"unknown sender",
), of("proto.",
	"DC eager", "DC eager write", "DC long-CTS", "DC long-CTS write", "DC medium", "DC write atomic",
	"compare atomic", "direct read", "direct write", "eager", "eager write", "fetch atomic", "long-CTS",
	"long-CTS read", "long-CTS write", "long-read", "long-read write", "medium", "runting read", "short read",
	"write atomic",
), of("received.",
	"DC eager", "DC long-CTS", "DC medium", "eager", "long-CTS", "long-read", "medium", "runting read",
), of("PacketsRecv.",
	"ATOMRSP", "COMPARE_RTA", "CTS", "CTSDATA", "DC_EAGER_MSGRTM", "DC_EAGER_RTW", "DC_EAGER_TAGRTM",
	"DC_LONGCTS_MSGRTM", "DC_LONGCTS_RTW", "DC_LONGCTS_TAGRTM", "DC_MEDIUM_MSGRTM", "DC_MEDIUM_TAGRTM",
	"DC_WRITE_RTA", "EAGER_MSGRTM", "EAGER_RTW", "EAGER_TAGRTM", "EOR", "FETCH_RTA", "HANDSHAKE",
	"LONGCTS_MSGRTM", "LONGCTS_RTR", "LONGCTS_RTW", "LONGCTS_TAGRTM", "LONGREAD_MSGRTM", "LONGREAD_RTW",
	"LONGREAD_TAGRTM", "MEDIUM_MSGRTM", "MEDIUM_TAGRTM", "PEER_ERROR", "READRSP", "READ_NACK", "RECEIPT",
	"RUNTREAD_MSGRTM", "RUNTREAD_TAGRTM", "SHORT_RTR", "WRITE_RTA",
), of("",
	"Aborted", "Backoffs", "BackoffsCut", "HandshakesSent", "NACKsRecv", "NACKsSent", "OutOfOrder", "Overflow",
	"PeerErrorsSent", "PeersFailed", "Probes", "Refused", "RefusedKeys", "Resent", "Unexpected",
	"Queue.RDMAPosted", "Queue.RDMARefused", "Queue.RNR", "Queue.SlotWaits", "Queue.Stalled",
), of("rx.",
	"RXE_ANSWER answered", "RXE_ASK asked", "RXE_INIT match", "RXE_INIT no-recv", "RXE_INIT whole",
	"RXE_MATCHED fail", "RXE_MATCHED last", "RXE_MATCHED last-owed", "RXE_MATCHED nack", "RXE_MATCHED read-failed", "RXE_UNEXP match",
), of("caller.",
	"HOLDING cancel", "HOLDING outcome", "HOLDING revoke", "HOLDING withdraw", "LEAVING copied", "LEAVING outcome",
	"REVOKED outcome", "WITHDRAWING withdrawn",
), of("tx.",
	"OPE_ERR acked", "OPE_ERR acked-all", "OPE_ERR fail", "OPE_SEND acked", "OPE_SEND asked", "OPE_SEND paused",
	"OPE_SEND posted", "OPE_SEND posted-all", "TXE_AWAIT acked", "TXE_AWAIT answered", "TXE_AWAIT answered-all",
	"TXE_AWAIT fail", "TXE_AWAIT nack", "TXE_DRAIN acked", "TXE_DRAIN acked-all", "TXE_DRAIN fail",
	"TXE_REQ acked", "TXE_REQ asked", "TXE_REQ fail", "TXE_REQ opened", "TXE_REQ paused", "TXE_REQ posted",
	"TXE_REQ posted-all", "TXE_WAIT acked", "TXE_WAIT cts", "TXE_WAIT fail",
), of("",
	"atomic BFLOAT16", "atomic FLOAT16", "atomic INT128", "atomic UINT128",
	"access canceled", "access failed", "access not begun", "access ok", "access refused", "access refused to all", "again", "atomic compare",
	"atomic fetch", "atomic update", "claim", "closed", "discard", "inject", "judged", "killed",
	"memory closed", "order kept", "path far", "path near", "peek", "peek in vain", "recv canceled", "recv failed", "recv ok", "recv truncated",
	"recv unlisted", "refused", "remote write", "remote write counted", "direct write with data", "restarted", "send canceled", "send failed", "send ok",
	"send without DC", "store closed", "unregistered",
	"event access refused", "event new peer", "event peer failed",
	"multi ok", "multi released", "multi truncated", "next in vain", "next ok", "next too long",
))

// rare are events that only many seeds cause, a hundred times in ten thousand.
var rare = slices.Concat(of("",
	"PeerDown", "access broken", "access without DC", "event memory pressure", "event memory relieved",
	"recv aborted", "recv broken", "removed", "send broken",
), of("rx.", "OPE_ERR read-failed", "RXE_ASK fail", "RXE_UNEXP fail"), of("tx.", "OPE_SEND fail"), of("caller.",
	"ENDING cts", "LEAVING revoke", "LEAVING until-cts",
))

// elsewhere are steps that need a peer which does not keep to the protocol, or a
// moment that no seed can be made to hit; the scenarios of package endpoint have them.
var elsewhere = slices.Concat([]string{
	"caller.LEAVING late",
	// No scenario has these two either, only the tests of the table.
	"caller.WITHDRAWING outcome",  // the peer fails while it is asked
	"caller.WITHDRAWING too-late", // the turn and the cancellation cross
	"rx.RXE_ANSWER fail",
	"rx.RXE_INIT fail",    // a peer that fails between the two words of its endpoint on one message
	"tx.OPE_ERR cts",      // a CTS for a message that failed without its peer
	"tx.TXE_REQ answered", // an EOR before the runt is out
	// Packets take time here. All eager messages over shm take this step, in the tests of package efa.
	"tx.TXE_REQ delivered",
},
	// No seed has a peer that lives and is cut off, which is then told of what it was owed; pauses and
	// stops (TestPauses) and the scenarios death_return have it.
	of("life.", "FAILING reached", "LIVE owe", "OWING settle", "RETURNING back", "RETURNING back-owing", "RETURNING bury"),
	// TestMoreStrangersThanPlaces and the scenarios stranger_rest and stranger_trial have these.
	of("place.", "ON_TRIAL crowd", "WAITING forget", "WAITING replace", "WAITING room"),
	// When the queue pair is closed nothing counts any more.
	of("rx.", "OPE_ERR abandon", "RXE_ANSWER abandon", "RXE_ASK abandon", "RXE_INIT abandon", "RXE_MATCHED abandon",
		"RXE_UNEXP abandon"),
	of("tx.", "OPE_ERR abandon", "OPE_SEND abandon", "TXE_AWAIT abandon", "TXE_DRAIN abandon", "TXE_REQ abandon",
		"TXE_WAIT abandon"),
)

func of(prefix string, names ...string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = prefix + name
	}
	return list
}

// defaultSeeds is the number of seeds in CI, enough for all of common.
const defaultSeeds = 120

func judgeCoverage(t *testing.T, total map[string]uint64, count int) {
	if count < defaultSeeds {
		return // a few seeds, or with the race detector
	}
	want := map[bool]uint64{false: 1, true: uint64(count / 10)}[count >= 1000]
	for _, name := range common {
		if total[name] < want {
			t.Errorf("%d seeds: %q happened %d times, not %d", count, name, total[name], want)
		}
	}
	for _, name := range rare {
		if count >= 10000 && total[name] < 100 {
			t.Errorf("%d seeds: %q happened %d times, not 100", count, name, total[name])
		}
	}
	for _, name := range unreached(total, count) {
		t.Errorf("%d seeds never reached %q", count, name)
	}
	known := slices.Concat(common, rare, elsewhere, slices.Collect(maps.Keys(sometimes)))
	for _, name := range slices.Sorted(maps.Keys(total)) {
		machine, _, _ := strings.Cut(name, ".")
		step := slices.Contains([]string{"tx", "rx", "caller", "life", "place"}, machine)
		if (step || strings.HasPrefix(name, "fault.")) && !slices.Contains(known, name) {
			t.Errorf("%q is in no list", name)
		}
		t.Logf("%12d %s", total[name], name)
	}
}
