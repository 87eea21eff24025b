// Package endpoint is the actor that stands for one endpoint (fi_endpoint): it
// takes requests from the application, owns the maps from addresses to peers and
// the matcher, and spawns and supervises everything else of the endpoint: the
// device queue, peers, operations.
//
// Requests come through a bounded ring that the endpoint polls; outcomes leave
// through the Sink in each request. All else happens on the shard.
//
// Start reading at endpoint.go; requests.go is what the application asks for,
// strangers.go who may talk to us, match.go the meeting of message and receive.
package endpoint
