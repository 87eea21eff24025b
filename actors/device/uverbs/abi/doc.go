// Package abi has the byte layouts between a program and an EFA device: the commands
// of the kernel's uverbs interface, and the queue formats in memory that both share.
// It imports the standard library alone, and neither makes a system call nor touches
// memory that it wasn't given.
//
// Control, in ioctl [IoctlVerbs] on /dev/infiniband/uverbsN: a [Header] with
// attributes ([Attr]), which name an object, a method and its arguments. "core" is the
// kernel's uverbs layer, "UHW" the EFA driver.
//
//	step              object.method or command         core in, out              UHW in, out
//	get context       Device.GetContext                -, u32 vectors, u64       ContextCmd, ContextResp
//	query device      write command CmdQueryDeviceEx   ExCmd, DeviceAttr         -, DeviceResp
//	query port, GID   Device.QueryPort, .QueryGIDEntry -, PortAttr, GIDEntry     -
//	protection domain write command CmdAllocPD         WriteCmd, u32 handle      -, AllocPDResp
//	memory region     write command CmdRegMR           RegMR, RegMRResp          -
//	channel           write command CmdCompChannel     WriteCmd, u32 descriptor  -
//	completion queue  CQ.Create, .Destroy              attrs, DestroyCQResp      CreateCQ, CreateCQResp
//	queue pair        QP.Create, .Destroy              QPCap, QPCap              CreateQP, CreateQPResp
//	                  write command CmdModifyQP        ModifyQP, -               -
//	                  write command CmdQueryQP         QueryQP, QueryQPResp      -
//	address handle    write command CmdCreateAH        CreateAH, u32 handle      -, CreateAHResp
//
// Data, in mapped memory: work requests in the send queue, receive descriptors,
// completions and doorbells (wqe.go, cq.go).
//
// A type T has its size in bytes as TLen, Append, which adds that many bytes, and
// Parse, which reads them from the start of a slice and leaves T alone if the slice
// is shorter ([ErrShort]). Reserved bytes are fields named Reserved...: it is for
// the caller to refuse what isn't 0. Integers are little-endian, GIDs in network
// order.
package abi
