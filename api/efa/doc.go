// Package efa is message passing over EFA RDM protocol version 4: endpoints that
// send and receive messages of any size, tagged and not, reliably and in order
// between each pair of endpoints, and that write, read and atomically update
// memory of each other.
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
// There are two styles. Blocking calls ([Endpoint.Send], [Endpoint.Recv],
// [Endpoint.Write], [FetchAdd]...) return when the operation is over and take a
// context. Posted operations ([Endpoint.Post]) return at once and report to a
// [Queue].
//
// # Devices
//
// An endpoint lives on one device, or on several at once: DeviceName "auto" in [Config]
// is shared memory for peers on this host and sockets (Config.TCP) for all others.
// [Endpoint.Address] then has a path for each, and all of it is what peers insert: both
// sides take the first that both have. [Fabric.Devices] says what was opened and why,
// [AddressVector.Device] which one a peer has got.
//
// # Memory of others
//
// A [MemoryRegion] is memory that peers may use, as its [Access] says, if they have
// its [Remote]: 24 bytes, which are sent to them like anything else.
//
//	mem, err := dom.Alloc(1<<20, efa.AccessRemoteRead|efa.AccessRemoteWrite)
//	at := mem.Remote()                              // give this to the others
//	err = ep.Write(ctx, peer, at, data, efa.Complete(efa.Delivered))
//	err = ep.Read(ctx, peer, at.Slice(4096, 512), buf)
//	n, err := efa.FetchAdd(ctx, ep, peer, at, uint64(1))
//
// Nothing need run at the other side for that but its progress. Where both devices
// can, they write and read by themselves; otherwise the endpoints do it with
// packets. Which one it was is in [Completion.Protocol]. Memory of Alloc is reached
// best, and messages of MinRead bytes and more that lie in it are read by the
// receiver's device instead of sent.
//
// Go code at the other side may look at memory after something has told it that the
// write is complete: a message of the writer's sent afterwards, a [RemoteWrite]
// completion, an atomic. It must not race with remote accesses in between; only
// aligned words of 32 and 64 bits may be shared, by atomics there and sync/atomic
// here.
//
// # Watching it
//
// With a TracerProvider in [Config].Telemetry each operation has an OpenTelemetry span on
// either side, and both are in one trace although nothing is added to the wire; with a
// MeterProvider there are metrics. [Endpoint.Snapshot] says what everything in progress
// waits for, [Endpoint.Stats] has all counters.
//
// # What holds
//
//   - Every accepted operation that is neither Quiet nor Inject has exactly one
//     outcome, also after Close and after its peer died.
//   - A call never returns while anything may still touch the caller's buffer.
//   - Messages and atomics between two endpoints arrive in the order of the calls.
//     Writes and reads have no order.
//   - A peer touches no memory but that of regions whose key it has, and those as
//     their Access allows.
//   - A dead peer is noticed: by the shared-memory device within half a second,
//     otherwise after PeerTimeout.
//   - Errors keep libfabric's numbers ([Errno]) and work with errors.Is and
//     errors.As ([OpError]).
//
// Not built yet, and ErrNotSupported until then: multi-receive buffers, fences.
package efa
