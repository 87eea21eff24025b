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
// There are two ways to wait. Blocking calls ([Endpoint.Send], [Memory.Write], [Cell.FetchAdd]...)
// take a context and options, and return when the operation is over. Posted operations
// ([Endpoint.PostSend] and so on) are described by a struct, return at once and report to a
// [Queue], or, for libraries without a queue, to an [Op]. A [Counter] counts both.
//
// The objects behind it are libfabric's, in Go's manner: a [Fabric] is an open device, a
// [Domain] its memory and the shards that run endpoints, an [AddressVector] maps addresses to
// small handles, an [Endpoint] talks. OpenEndpoint makes one of each; for several endpoints there
// are [Open], [Fabric.OpenDomain], [Domain.NewEndpoint] and [Endpoint.Enable]. A struct whose zero
// value works configures each.
//
// # Devices
//
// [Devices] lists the devices, best first. An endpoint lives on one device or on several:
// DeviceName "auto" in [Config] is shared memory for peers on this host and sockets (Config.TCP)
// for all others. [Endpoint.Address] then has a path for each device, and both sides take the first
// that both have. [Fabric.Devices] says what was opened, [AddressVector.Device] what a peer uses.
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
// The other program makes no call for that; its endpoint makes progress by itself. Where both
// devices can, they write and read by themselves; otherwise the endpoints do it with packets
// ([Completion.Protocol]). Memory of Alloc is reached best: messages of MinRead bytes and more
// in it, over tcp in any memory, are read by the receiver's device, and their send is over once
// there is a receive.
//
// Go code at the other side may look at memory once it knows that the write is complete: by a
// message that the writer sent afterwards, a [RemoteWrite] completion or an atomic. Before that
// only aligned words of 32 and 64 bits may be shared, by atomics there and sync/atomic here.
//
// # Watching it
//
// [Config].Telemetry has OpenTelemetry spans made of each operation on either side, in one trace
// although nothing is added to the wire, and metrics. [Endpoint.Snapshot] says what everything in
// progress waits for, [Endpoint.Stats] has all counters.
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

// Read endpoint.go first (the life of an endpoint), then submit.go (how a request gets to the shard,
// and its outcome back), send.go, recv.go, next.go, rma.go and atomic.go. Outcomes go to queue.go and
// counter.go; events.go, observe.go and arrivals.go say what else happens; fabric.go, devices.go,
// domain.go, memory.go, av.go and recvpool.go have the objects around it.
