// Package endpoint is the actor of one endpoint (fi_endpoint). It takes requests from the
// application, and it makes and supervises the other actors of the endpoint: the device
// queue, the peers and the operations.
//
// Requests come through a bounded ring that the endpoint polls; outcomes leave through the
// Sink in each request. Everything else happens on the shard.
//
// Endpoint is the message switch and the request switch. Start reading at endpoint.go, then
// requests.go, which has what the application asks for, and match.go, where messages meet
// receives. Each further concern is a part with its own state; Endpoint.assemble says what
// each part uses:
//
//	peers       which peer a handle or a packet belongs to            av.go
//	            peers in no address vector, evicted peers, connids    implicit_av.go
//	claims      peek and claim (FI_PEEK, FI_CLAIM)                    peek.go
//	multiRecvs  buffers for many messages (FI_MULTI_RECV)             multirecv.go
//	Pool        receives of several endpoints (fi_srx_context)        srx.go
//	access      what peers may do with registered memory              access.go
//	writeEvents reports of peers' writes with data, of other accesses rma_event.go
//	pressure    what happens when memory is used up                   pressure.go
//	closing     the end, by Close, device failure or panic            close.go
//
// config.go has the settings and the events, observe.go the snapshots and counters, direct.go
// an endpoint without the protocol.
package endpoint
