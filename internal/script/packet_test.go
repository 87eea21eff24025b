package script

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// TestPacketText writes packets of every type as text and reads them again: Text's
// form of a packet makes the same packet.
func TestPacketText(t *testing.T) {
	r, x := newRig(t, Config{})
	m, err := r.Register("m", 5000, Rights{RemoteRead: true}, false)
	require.NoError(t, err)
	require.Equal(t, uint64(1), m.Key(0))
	r.Share(x, "buf", 300, true)
	for _, line := range []string{
		"EAGER_MSGRTM msg_id=1 len=7 seed=5",
		"EAGER_TAGRTM msg_id=1 tag=0xff cq_data=0x5 len=0",
		"DC_EAGER_MSGRTM msg_id=1 send_id=2 connid=x len=0",
		"DC_EAGER_TAGRTM msg_id=1 send_id=2 tag=0x1 raw_addr=x len=3 seed=1",
		"MEDIUM_MSGRTM msg_id=1 msg_length=900 seg_offset=300 len=600 seed=3",
		"DC_MEDIUM_TAGRTM msg_id=1 send_id=9 msg_length=900 seg_offset=300 tag=0x2 len=600 seed=3",
		"LONGCTS_MSGRTM msg_id=1 msg_length=900 send_id=3 credit_request=7 read_nack len=0",
		"DC_LONGCTS_TAGRTM msg_id=1 msg_length=900 send_id=3 credit_request=7 tag=0x2 len=10 seed=1",
		"LONGREAD_MSGRTM msg_id=1 msg_length=900 send_id=3 read_iov=[m+10:900]",
		"LONGREAD_TAGRTM msg_id=1 msg_length=900 send_id=3 tag=0x2 read_iov=[m+10:400,m+500:500]",
		"RUNTREAD_MSGRTM msg_id=1 msg_length=900 send_id=3 seg_offset=8 runt_length=16 read_iov=[m+0:900] len=8 seed=2",
		"RUNTREAD_TAGRTM msg_id=1 msg_length=900 send_id=3 seg_offset=0 runt_length=16 tag=0x1 read_iov=[m+0:900] len=8 seed=2",
		"EAGER_RTW rma_iov=[buf+0:10] connid=x len=10 seed=1",
		"DC_EAGER_RTW send_id=4 rma_iov=[buf+290:10] len=10 seed=1",
		"LONGCTS_RTW msg_length=20 send_id=4 credit_request=32 rma_iov=[m+0:10,m+10:10] cq_data=0x1 len=10 seed=1",
		"DC_LONGCTS_RTW msg_length=20 send_id=4 credit_request=32 rma_iov=[m+0:20] len=0",
		"LONGREAD_RTW msg_length=20 send_id=4 rma_iov=[buf+0:20] read_iov=[m+0:20]",
		"SHORT_RTR msg_length=20 recv_id=5 recv_length=20 rma_iov=[0x77+20@99]",
		"LONGCTS_RTR msg_length=20 recv_id=5 recv_length=15 rma_iov=[m+0:20] raw_addr=x",
		"WRITE_RTA msg_id=1 atomic_datatype=INT16 atomic_op=SUM rma_iov=[m+0:4] len=4 value=1,-2",
		"DC_WRITE_RTA msg_id=1 atomic_datatype=FLOAT atomic_op=MAX send_id=3 rma_iov=[m+0:4] len=4 value=1.5",
		"FETCH_RTA msg_id=1 atomic_datatype=UINT64 atomic_op=ATOMIC_READ recv_id=3 rma_iov=[m+0:8] len=0",
		"COMPARE_RTA msg_id=1 atomic_datatype=DOUBLE atomic_op=CSWAP recv_id=3 rma_iov=[m+0:8] len=16 value=0.5,-1",
		"CTS send_id=3 recv_id=4 recv_length=77 connid=x",
		"CTS send_id=3 recv_id=4 recv_length=77 emulated_read connid=x",
		"CTSDATA recv_id=4 seg_length=10 seg_offset=100 connid=x len=10 seed=6",
		"READRSP recv_id=4 send_id=3 seg_length=10 connid=x len=10 seed=6",
		"ATOMRSP recv_id=4 seg_length=4 connid=x len=4 value=01020304",
		"EOR send_id=3 recv_id=4 connid=x",
		"RECEIPT tx_id=3 msg_id=4 connid=x",
		"READ_NACK send_id=3 recv_id=4 connid=x",
		"PEER_ERROR op_id=3 ref_kind=msg_id_skip prov_errno=7 connid=x",
		"PEER_ERROR msg_id=2 op_id=3 emitter=rxe prov_errno=7 connid=x",
		"PEER_ERROR msg_id=2 op_id=0 op_id_valid=0 emitter=txe prov_errno=7 connid=x",
		"PEER_ERROR msg_id=2 op_id=3 op_id_valid=1 emitter=rxe prov_errno=7 connid=x",
		"HANDSHAKE extra_info=0x3 connid=x host_id=0x2 device_version=0xefa1 user_recv_qp=3 user_recv_qkey=0x4 p2p_supported=true",
	} {
		b, err := r.Packet(x, words2(line))
		require.NoError(t, err, line)
		require.Equal(t, line, r.Text(b))
	}
}

// words2 turns what Text says into the words that Packet takes.
func words2(line string) []string {
	line = strings.NewReplacer("[", "", "]", "", "connid=x", "connid", "raw_addr=x", "raw_addr",
		"extra_info=0x3", "features=0,1", "p2p_supported=true", "p2p").Replace(line)
	f := strings.Fields(line)
	for i, w := range f {
		switch {
		case f[0] == "ATOMRSP" && strings.HasPrefix(w, "value="):
			f[i] = "atomic_datatype=UINT8" // and the values of its bytes
			f = append(f, "value=1,2,3,4")
		case w == "len=4" || w == "len=16" && f[0] == "COMPARE_RTA":
			f[i] = "x" // they are the operands
		}
	}
	return f
}

// TestBadWords: a line that says nothing sensible is an error, not another packet.
func TestBadWords(t *testing.T) {
	r, x := newRig(t, Config{})
	for _, line := range []string{
		"NOTHING", "EAGER_MSGRTM msg_id=one", "EAGER_RTW rma_iov=nobody+0:10", "EAGER_RTW rma_iov=m",
		"EAGER_RTW rma_iov=0x1+1@1,0x1+1@1,0x1+1@1,0x1+1@1,0x1+1@1", "WRITE_RTA atomic_datatype=INT8 value=x",
		"HANDSHAKE features=x", "RAW hex=q",
	} {
		_, err := r.Packet(x, strings.Fields(line))
		require.Error(t, err, line)
	}
	b, err := x.Packet(strings.Fields("EAGER_MSGRTM msg_id=1 type=200 version=3 flags=0x4001 len=2 cut=9"))
	require.NoError(t, err)
	require.Equal(t, []byte{200, 3, 5, 0x40, 1, 0, 0, 0, 1}, b)
}

func TestValues(t *testing.T) {
	for d := wire.DatatypeInt8; d <= wire.DatatypeUint64; d++ {
		b, err := ParseValues(d, "1,0,127")
		require.NoError(t, err)
		require.Len(t, b, 3*d.Size())
		require.Equal(t, "1,0,127", Values(d, b), d.String())
	}
	b, err := ParseValues(wire.DatatypeInt32, "-1")
	require.NoError(t, err)
	require.Equal(t, "-1", Values(wire.DatatypeInt32, b))
	require.Equal(t, "4294967295", Values(wire.DatatypeUint32, b))
	require.Equal(t, "255,255,255,255", Values(wire.DatatypeUint8, b))
	require.Equal(t, "65535,ff", Values(wire.DatatypeUint16, b[:3]))
	require.Equal(t, "ffff", Values(77, b[:2]))
	long := make([]byte, 32)
	require.Equal(t, strings.Repeat("00", 32), Values(wire.DatatypeLongDoubleComplex, long))
	_, err = Datatype("INT9")
	require.Error(t, err)
	_, err = AtomicOp("TIMES")
	require.Error(t, err)
}
