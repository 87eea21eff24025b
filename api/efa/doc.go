// Package efa is message passing over EFA RDM protocol version 4: endpoints that
// send and receive messages of any size, tagged and not, reliably and in order
// between each pair of endpoints.
//
// The objects are libfabric's, in Go's manner: a [Fabric] is an open device, a
// [Domain] its memory and the shards that run endpoints, an [AddressVector] maps
// addresses to small handles, an [Endpoint] talks. Everything is configured by a
// struct whose zero value works.
//
//	fab, err := efa.Open(efa.Config{})              // shared memory of this host
//	dom, err := fab.OpenDomain(efa.DomainConfig{})
//	av := dom.NewAddressVector()
//	ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av})
//	err = ep.Enable(ctx)
//	fmt.Println(ep.Address())                       // give this to the others
//	peer, err := av.Insert(addressOfTheOther)
//	err = ep.Send(ctx, peer, []byte("hello"))
//	msg, err := ep.Recv(ctx, buf)
//
// There are two styles. Blocking calls ([Endpoint.Send], [Endpoint.Recv]) return
// when the operation is over and take a context. Posted operations
// ([Endpoint.Post]) return at once and report to a [Queue].
//
// What holds:
//
//   - Every accepted operation that is neither Quiet nor Inject has exactly one
//     outcome, also after Close and after its peer died.
//   - A call never returns while anything may still touch the caller's buffer.
//   - Messages between two endpoints arrive in the order of their sending.
//   - A dead peer is noticed: by the shared-memory device within half a second,
//     otherwise after PeerTimeout.
//   - Errors keep libfabric's numbers ([Errno]) and work with errors.Is and
//     errors.As ([OpError]).
//
// Not built yet, and ErrNotSupported until then: remote memory access and
// atomics ([Domain.Register] and what uses it), delivery-complete and
// match-complete levels, multi-receive buffers, peek and claim, fences.
package efa
