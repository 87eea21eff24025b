// Package efa is message passing over EFA RDM protocol version 4: endpoints that
// send and receive messages of any size, tagged and not, reliably and in order
// between each pair of endpoints, and that write, read and atomically update memory of
// each other; or, by [EndpointConfig].Direct, that do without the protocol (efa-direct).
//
// These lines are enough for most programs:
//
//	ep, err := efa.OpenEndpoint(ctx, efa.Setup{})   // shared memory of this host
//	defer ep.Close()
//	fmt.Println(ep.Address())                       // give this to the others
//	peer, err := ep.AddressVector().Insert(addressOfTheOther)
//	err = ep.Send(ctx, peer, []byte("hello"))
//	msg, err := ep.Recv(ctx, buf)
//	id, err := ep.PostSend(&efa.SendReq{To: peer, Buf: buf, Token: 7})
//	n, err := ep.SendQueue().Read(ctx, completions)
//	for msg, err := range ep.Messages(ctx) {        // of any size, in buffers that ep lends
//
// There are two ways to wait. Blocking calls ([Endpoint.Send], [Endpoint.Recv],
// [Memory.Write], [Cell.FetchAdd]...) return when the operation is over, take a context,
// and say what else they wish by options. Posted operations ([Endpoint.PostSend] and so
// on) are described by a struct, return at once and report to a [Queue]; a library that
// has no queue of its own on an endpoint uses [Endpoint.Start]. A [Counter] counts both.
//
// The objects behind it are libfabric's, in Go's manner: a [Fabric] is an open device, a
// [Domain] its memory and the shards that run endpoints, an [AddressVector] maps
// addresses to small handles, an [Endpoint] talks. OpenEndpoint makes one of each; those
// who want several endpoints call [Open], [Fabric.OpenDomain], [Domain.NewEndpoint] and
// [Endpoint.Enable]. Everything is configured by a struct whose zero value works.
//
// # Devices
//
// [Devices] lists what there is, best first. An endpoint lives on one device, or on several
// at once: DeviceName "auto" in [Config] is shared memory for peers on this host and
// sockets (Config.TCP) for all others. [Endpoint.Address] then has a path for each, and
// all of it is what peers insert: both sides take the first that both have.
// [Fabric.Devices] says what was opened, [AddressVector.Device] which one a peer has got.
//
// # Memory of others
//
// A [MemoryRegion] is memory that peers may use, as its [Access] says, if they have
// its [Remote]: a few bytes, which are sent to them like anything else.
//
//	mem, err := dom.Alloc(1<<20, efa.AccessRemoteRead|efa.AccessRemoteWrite)
//	at := mem.Remote()                              // give this to the others
//	there := ep.Memory(peer, at)                    // at the other side
//	err = there.Write(ctx, data, efa.Complete(efa.Delivered))
//	err = there.Slice(4096, 512).Read(ctx, buf)
//	n, err := efa.NewCell[uint64](there).FetchAdd(ctx, 1)
//
// Nothing need run at the other side for that but its progress. Where both devices can,
// they write and read by themselves; otherwise the endpoints do it with packets
// ([Completion.Protocol]). Memory of Alloc is reached best. Messages of MinRead bytes and
// more in it are read by the receiver's device; their send is over once there is a receive.
// Over tcp so are those from any other memory, in shared memory where it was asked for and the
// kernel lets the receiver.
//
// Go code at the other side may look at memory after something has told it that the
// write is complete: a message of the writer's sent afterwards, a [RemoteWrite]
// completion, an atomic. In between only aligned words of 32 and 64 bits may be shared,
// by atomics there and sync/atomic here.
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
//     Writes and reads have no order unless [Fence] or [Order] gives them one.
//   - A peer touches only regions whose key it has, as their Access allows.
//   - A dead peer is noticed: by the shared-memory device within half a second,
//     otherwise after PeerTimeout.
//   - Errors keep libfabric's numbers ([Errno]); errors.Is and errors.As ([OpError]) work.
package efa
