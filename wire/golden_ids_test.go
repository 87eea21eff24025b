package wire

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
)

// endpointIDs are the ids and msg_ids that one side has announced.
type endpointIDs struct {
	send      []uint32 // of LONGCTS, LONGREAD and RUNTREAD requests, of READRSP
	readSend  []uint32 // of READRSP alone
	dc        []uint32 // of DC requests
	recv      []uint32 // of CTS, LONGCTS_RTR: for CTSDATA
	readRecv  []uint32 // of RTR: for READRSP
	fetchRecv []uint32 // of FETCH_RTA and COMPARE_RTA: for ATOMRSP
	dcMsgID   []uint32 // of DC RTMs, and 0
}

// TestGoldenIDs follows the ids through every scenario: what a packet echoes,
// its receiver must have announced. In the scenarios of ids/ the two sides' ids
// differ, so fields in the wrong order show.
func TestGoldenIDs(t *testing.T) {
	sides := map[string]*endpointIDs{}
	last := ""
	echoes := 0
	goldenPackets(t, func(s *golden.Scenario, p *golden.Packet) {
		if key := s.Libfabric + s.Name; key != last {
			last = key
			sides = map[string]*endpointIDs{"A": {dcMsgID: []uint32{0}}, "B": {dcMsgID: []uint32{0}}}
		}
		own, peer := sides["A"], sides["B"]
		if p.From == "B" {
			own, peer = peer, own
		}
		echo := func(id uint32, of []uint32) {
			t.Helper()
			echoes++
			require.True(t, slices.Contains(of, id), "%s %s #%d %s: id %d was not announced in %v", s.Libfabric, s.Name, p.Seq, Summary(p.Hex), id, of)
		}
		pkt, _, err := Decode(p.Hex)
		require.NoError(t, err)
		switch q := pkt.(type) {
		case *CTS:
			if q.EmulatedRead {
				echo(q.SendID, peer.readSend)
			} else {
				echo(q.SendID, peer.send)
			}
			own.recv = append(own.recv, q.RecvID)
		case *CTSData:
			echo(q.RecvID, peer.recv)
		case *READRSP:
			echo(q.RecvID, peer.readRecv)
			own.readSend = append(own.readSend, q.SendID)
		case *EOR:
			echo(q.SendID, peer.send)
		case *ReadNACK:
			echo(q.SendID, peer.send)
		case *ATOMRSP:
			echo(q.RecvID, peer.fetchRecv)
		case *Receipt:
			echo(q.TxID, peer.dc)
			echo(q.MsgID, peer.dcMsgID)
		case *LongCTSRTM:
			own.send = append(own.send, q.SendID)
			if q.DC {
				own.dc = append(own.dc, q.SendID)
				own.dcMsgID = append(own.dcMsgID, q.MsgID)
			}
		case *LongReadRTM:
			own.send = append(own.send, q.SendID)
		case *RuntReadRTM:
			own.send = append(own.send, q.SendID)
		case *LongCTSRTW:
			own.send = append(own.send, q.SendID)
			if q.DC {
				own.dc = append(own.dc, q.SendID)
			}
		case *LongReadRTW:
			own.send = append(own.send, q.SendID)
		case *EagerRTM:
			if q.DC {
				own.dc = append(own.dc, q.SendID)
				own.dcMsgID = append(own.dcMsgID, q.MsgID)
			}
		case *MediumRTM:
			if q.DC {
				own.dc = append(own.dc, q.SendID)
				own.dcMsgID = append(own.dcMsgID, q.MsgID)
			}
		case *EagerRTW:
			if q.DC {
				own.dc = append(own.dc, q.SendID)
			}
		case *RTR:
			own.readRecv = append(own.readRecv, q.RecvID)
			if q.LongCTS {
				own.recv = append(own.recv, q.RecvID)
			}
		case *RTA:
			own.fetchRecv = append(own.fetchRecv, q.RecvID)
			if q.Kind == RTADCWrite {
				own.dc = append(own.dc, q.SendID)
			}
		case *Handshake:
		default:
			t.Fatalf("%s was not expected in a capture", p.Type)
		}
	})
	require.Greater(t, echoes, 600)
	t.Logf("%d ids echoed", echoes)
}
