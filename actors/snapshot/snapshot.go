package snapshot

import "time"

// Endpoint is one endpoint at one moment.
type Endpoint struct {
	Taken    time.Time `json:"taken"`
	Name     string    `json:"name"`    // of the device's attachment
	Address  string    `json:"address"` // as efa.Address has it
	ConnID   uint32    `json:"connid"`
	State    string    `json:"state"`    // "open", or how far it is with closing
	Progress string    `json:"progress"` // mode of its shard, and why

	Queues     Queues            `json:"queues"`
	Peers      []Peer            `json:"peers"`      // those with operations first, then by address
	Operations []Operation       `json:"operations"` // oldest first
	Omitted    int               `json:"omitted"`    // operations that are not listed, the youngest
	Counters   map[string]uint64 `json:"counters"`   // as efa.Endpoint.Stats has them
}

// Queues are an endpoint's queues and what is kept in them.
type Queues struct {
	SendDepth      int   `json:"send_depth"` // packets that the device takes
	SendUsed       int   `json:"send_used"`
	RecvThrottled  bool  `json:"recv_throttled"` // memory is used up, senders meet RNR
	PostedReceives int   `json:"posted_receives"`
	Unexpected     int   `json:"unexpected"` // messages that no receive has matched
	HeldBytes      int64 `json:"held_bytes"` // of what nobody asked for
	HeldLimit      int64 `json:"held_limit"`
}

// Peer is a remote endpoint.
type Peer struct {
	Address    string        `json:"address"`
	Device     string        `json:"device"`    // that carries to it
	Handle     *uint64       `json:"handle"`    // in the address vector, null: not in it
	State      string        `json:"state"`     // "new", "ready", "backing off", "failed"
	Handshake  string        `json:"handshake"` // "none", "sent", "received", "both"
	Features   []string      `json:"features,omitempty"`
	Silent     time.Duration `json:"silent"` // since it last gave a sign of life
	BackingOff time.Duration `json:"backing_off,omitempty"`
	Operations int           `json:"operations"` // in progress
	InLine     int           `json:"in_line"`    // that wait for their turn
	Resends    int           `json:"resends"`    // packets that wait for the end of back-off
	NextID     uint32        `json:"next_msg_id"`
	ExpectedID uint32        `json:"expected_msg_id"`
	OutOfOrder int           `json:"out_of_order"` // packets that wait for it
	HeldBytes  int64         `json:"held_bytes"`
	Err        string        `json:"error,omitempty"`
}

// Operation is an operation in progress: the application's, or a peer's that this
// endpoint answers.
type Operation struct {
	Kind     string        `json:"kind"`           // "send", "receive", "write", "unexpected message", "peer's write", ...
	ID       uint64        `json:"id,omitempty"`   // efa.OpID, 0 of what a peer asked for
	Peer     string        `json:"peer,omitempty"` // its address, "" of a receive from anybody
	Protocol string        `json:"protocol,omitempty"`
	State    string        `json:"state,omitempty"` // of its machine
	Bytes    uint64        `json:"bytes"`
	Done     uint64        `json:"done"` // of them, acknowledged or arrived
	Age      time.Duration `json:"age"`
	Still    time.Duration `json:"still"` // since it last got on
	Waits    string        `json:"waits"` // what for, in words
	Tag      *uint64       `json:"tag,omitempty,string"`
	MsgID    *uint32       `json:"msg_id,omitempty"`
	SendID   uint32        `json:"send_id,omitempty"`
	RecvID   uint32        `json:"recv_id,omitempty"`
}
