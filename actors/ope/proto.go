package ope

import (
	"math"

	"github.com/efactor/efactor/actors/trail"
)

// Proto is the subprotocol that carries an operation (Table 1.1), or an answer to
// one.
type Proto uint8

// The subprotocols.
const (
	ProtoNone Proto = iota

	Eager    // messages, §3.2
	Medium   //
	LongCTS  //
	LongRead // §4.1
	RuntRead // §4.5
	DCEager  // §4.2
	DCMedium
	DCLongCTS
	Headerless // a message to a user receive queue pair

	EagerWrite // writes, §3.3
	LongCTSWrite
	LongReadWrite // §4.1
	DCEagerWrite  // §4.2
	DCLongCTSWrite
	DirectWrite // §4.6

	ShortRead // reads, §3.3
	LongCTSRead
	DirectRead // §4.1

	WriteAtomic // atomics, §3.3
	FetchAtomic
	CompareAtomic
	DCWriteAtomic // §4.2

	// What the side that was asked sends back.
	ReadResponse   // READRSP and CTSDATA
	AtomicResponse // ATOMRSP
	ReceiptOnly    // RECEIPT, where no rxe sends it
	ErrorOnly      // PEER_ERROR

	numProtos
	NumProtos = numProtos
)

// answer is what an operation waits for beside the acknowledgement of its packets.
type answer uint8

const (
	noAnswer answer = iota
	receipt         // RECEIPT: the data is where it belongs
	eor             // EOR: the memory was read
	atomRsp         // ATOMRSP: what was there before
)

// protos says what each subprotocol needs. It is as long as any Proto can be, so that no
// index needs a check.
var protos = [math.MaxUint8 + 1]struct {
	name   string
	cts    bool // what is left after the request goes by CTSDATA
	parts  bool // the requests are cut (medium and runt)
	answer answer
	rdma   bool // no packets: the device reads or writes
	rta    bool
}{
	ProtoNone:      {name: "-"},
	Eager:          {name: "eager"},
	Medium:         {name: "medium", parts: true},
	LongCTS:        {name: "long-CTS", cts: true},
	LongRead:       {name: "long-read", answer: eor},
	RuntRead:       {name: "runting read", parts: true, answer: eor},
	DCEager:        {name: "DC eager", answer: receipt},
	DCMedium:       {name: "DC medium", parts: true, answer: receipt},
	DCLongCTS:      {name: "DC long-CTS", cts: true, answer: receipt},
	Headerless:     {name: "headerless"},
	EagerWrite:     {name: "eager write"},
	LongCTSWrite:   {name: "long-CTS write", cts: true},
	LongReadWrite:  {name: "long-read write", answer: eor},
	DCEagerWrite:   {name: "DC eager write", answer: receipt},
	DCLongCTSWrite: {name: "DC long-CTS write", cts: true, answer: receipt},
	DirectWrite:    {name: "direct write", parts: true, rdma: true},
	ShortRead:      {name: "short read"},
	LongCTSRead:    {name: "long-CTS read", cts: true},
	DirectRead:     {name: "direct read", rdma: true},
	WriteAtomic:    {name: "write atomic", rta: true},
	FetchAtomic:    {name: "fetch atomic", answer: atomRsp, rta: true},
	CompareAtomic:  {name: "compare atomic", answer: atomRsp, rta: true},
	DCWriteAtomic:  {name: "DC write atomic", answer: receipt, rta: true},
	ReadResponse:   {name: "read response", cts: true},
	AtomicResponse: {name: "atomic response"},
	ReceiptOnly:    {name: "receipt"},
	ErrorOnly:      {name: "peer error"},
}

// String gives the name of Table 1.1.
func (p Proto) String() string {
	if p >= numProtos {
		p = ProtoNone
	}
	return protos[p].name
}

// readBased reports whether the receiver reads the sender's memory.
func (p Proto) readBased() bool { return protos[p].answer == eor }

// KeyKind is by which id both sides know an operation of the subprotocol: a msg_id, or
// the id by which the other side answers. Plain eager writes and direct RDMA have none,
// and data without headers neither.
func (p Proto) KeyKind() trail.KeyKind {
	switch p {
	case Eager, Medium, LongCTS, LongRead, RuntRead, DCEager, DCMedium, DCLongCTS,
		WriteAtomic, FetchAtomic, CompareAtomic, DCWriteAtomic:
		return trail.MsgID
	case LongCTSWrite, LongReadWrite, DCEagerWrite, DCLongCTSWrite:
		return trail.SendID
	case ShortRead, LongCTSRead:
		return trail.RecvID
	default:
		return trail.NoKey
	}
}

// dc reports whether a RECEIPT is to come.
func (p Proto) dc() bool { return protos[p].answer == receipt }
