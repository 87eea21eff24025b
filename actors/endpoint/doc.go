// Package endpoint is the actor of one endpoint (fi_endpoint). It takes requests from the
// application, and it makes and supervises the other actors of the endpoint: the device
// queue, the peers and the operations.
//
// Requests come through a bounded ring that the endpoint polls; outcomes leave through the
// Sink in each request. Everything else happens on the shard.
//
// Endpoint is the message switch and the request switch. Each concern is a part with its own
// state:
//
//	peers      which peer a handle or a packet belongs to    peers.go handles.go routes.go strangers.go
//	                                                          admission.go lobby.go
//	access     what peers may do with registered memory      access.go atomic.go
//	claims     peek and claim                                claims.go awaited.go
//	writes     reports of peers' writes with data            written.go
//	pressure   what happens when memory is used up           memory.go
//	closing    the end, by Close, device failure or panic    close.go crash.go
//
// assemble.go says what each part uses. Start reading at endpoint.go, then requests.go, which
// has what the application asks for, and match.go, where messages meet receives.
package endpoint
