package efa

import "github.com/efactor/efactor/actors/settings"

// EndpointConfig says what endpoint to make. Its zero value works.
type EndpointConfig struct {
	AV           *AddressVector // nil: one of its own
	SendQueue    *Queue         // for posted sends, writes, reads and atomics; may be the same as RecvQueue
	RecvQueue    *Queue         // for posted receives, and peers' writes with data
	SendCounter  *Counter       // of sends; all counters may be the same
	RecvCounter  *Counter       // of receives
	WriteCounter *Counter       // of writes, and of atomics that fetch nothing
	ReadCounter  *Counter       // of reads, and of atomics that fetch
	// RemoteWriteCounter counts peers' writes with data, and nothing else that
	// they do here.
	RemoteWriteCounter *Counter

	Level        Level  // default completion level
	TxDepth      int    // most sends, writes, reads and atomics in progress, see Limits; 0: 1024
	RxDepth      int    // most receives posted or in progress; 0: 16384
	QPN          uint16 // queue pair number; 0: any free one
	EventBacklog int    // events kept for NextEvent; 0: 256

	// Direct: the endpoint does without the protocol, as libfabric's efa-direct does, and its
	// peers must, too. See the package's comment.
	Direct bool

	Protocol ProtocolConfig
}

// ProtocolConfig are the switch points and times of the protocol. Zero values mean the
// default, which [Endpoint.Config] returns.
type ProtocolConfig = settings.Settings

// counters are all that the endpoint counts in, some of them nil.
func (cfg *EndpointConfig) counters() [5]*Counter {
	return [...]*Counter{cfg.SendCounter, cfg.RecvCounter, cfg.WriteCounter, cfg.ReadCounter, cfg.RemoteWriteCounter}
}
