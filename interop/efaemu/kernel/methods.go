//go:build linux

package kernel

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

type methodID struct{ object, method uint16 }

// method describes a method.
type method struct {
	attrs []spec
	run   func(*call) unix.Errno
}

// what an attribute is.
type what uint8

const (
	input   what = iota
	output       // a pointer
	handle       // of an object that is used
	doomed       // of the object that is destroyed
	fresh        // of a new object, written by the kernel
	channel      // a completion channel's descriptor
	async        // an async file's descriptor
	newFile      // a new descriptor, written by the kernel
)

// spec describes the valid values of an attribute.
type spec struct {
	id          uint16
	what        what
	object      uint16 // of handles
	least, most int    // bytes of inputs and outputs
	grows       bool   // may be longer: outputs, and inputs if the rest is zeros
	optional    bool
}

// find is the index of the attribute id; -1: unknown.
func (m *method) find(id uint16) int {
	for i := range m.attrs {
		if m.attrs[i].id == id {
			return i
		}
	}
	return -1
}

func opt(s spec) spec               { s.optional = true; return s }
func in(id uint16, n int) spec      { return spec{id: id, what: input, least: n, most: n} }
func inOf(id uint16, n, m int) spec { return spec{id: id, what: input, least: n, most: m} }
func inStruct(id uint16, n int) spec {
	return spec{id: id, what: input, least: n, most: n, grows: true}
}
func out(id uint16, n int) spec { return spec{id: id, what: output, least: n, most: n} }
func outStruct(id uint16, n int) spec {
	return spec{id: id, what: output, least: n, most: n, grows: true}
}
func obj(w what, id, k uint16) spec { return spec{id: id, what: w, object: k} }

// uhw are the attributes for the driver's part.
func uhw(attrs ...spec) []spec {
	return append(attrs,
		opt(inOf(abi.AttrUHWIn, 0, math.MaxUint16)),
		opt(spec{id: abi.AttrUHWOut, what: output, most: math.MaxUint16}))
}

func (*call) nothing() unix.Errno { return 0 }

// methods has all methods of a device without those of objects that EFA's driver
// doesn't implement.
var methods = map[methodID]*method{
	{abi.ObjectDevice, abi.DeviceInvokeWrite}: {run: (*call).invokeWrite, attrs: uhw(
		in(abi.InvokeWriteCmd, 8),
		opt(inOf(abi.InvokeCoreIn, 4, math.MaxUint16)),
		opt(spec{id: abi.InvokeCoreOut, what: output, most: math.MaxUint16}),
	)},
	{abi.ObjectDevice, abi.DeviceGetContext}: {run: (*call).getContext, attrs: uhw(
		opt(out(abi.ContextCompVectors, 4)),
		opt(out(abi.ContextCoreSupport, 8)),
	)},
	{abi.ObjectDevice, abi.DeviceQueryPort}: {run: (*call).queryPort, attrs: []spec{
		in(abi.QueryPortNumber, 8),
		outStruct(abi.QueryPortResp, abi.PortAttrLen),
	}},
	{abi.ObjectDevice, abi.DeviceQueryGIDEntry}: {run: (*call).queryGID, attrs: []spec{
		in(abi.GIDEntryPort, 8),
		in(abi.GIDEntryIndex, 8),
		inOf(abi.GIDEntryFlags, 4, 8),
		outStruct(abi.GIDEntryResp, abi.GIDEntryLen),
	}},
	{abi.ObjectPD, abi.PDDestroy}: {run: (*call).nothing, attrs: []spec{
		obj(doomed, abi.DestroyHandle, abi.ObjectPD),
	}},
	{abi.ObjectAH, abi.AHDestroy}: {run: (*call).nothing, attrs: []spec{
		obj(doomed, abi.DestroyHandle, abi.ObjectAH),
	}},
	{abi.ObjectMR, abi.MRDestroy}: {run: (*call).nothing, attrs: []spec{
		obj(doomed, abi.DestroyHandle, abi.ObjectMR),
	}},
	{abi.ObjectMR, abi.MRRegDMABuf}: {run: (*call).regDMABuf, attrs: []spec{
		obj(fresh, abi.DMABufHandle, abi.ObjectMR),
		obj(handle, abi.DMABufPD, abi.ObjectPD),
		in(abi.DMABufOffset, 8),
		in(abi.DMABufLength, 8),
		in(abi.DMABufIOVA, 8),
		in(abi.DMABufFD, 4),
		inOf(abi.DMABufAccess, 4, 8),
		out(abi.DMABufLKey, 4),
		out(abi.DMABufRKey, 4),
	}},
	{abi.ObjectAsyncEvent, abi.AsyncEventAlloc}: {run: (*call).allocAsync, attrs: []spec{
		obj(newFile, abi.AsyncEventFD, abi.ObjectAsyncEvent),
	}},
	{abi.ObjectCQ, abi.CQCreate}: {run: (*call).createCQ, attrs: uhw(
		obj(fresh, abi.CreateCQHandle, abi.ObjectCQ),
		in(abi.CreateCQEntries, 4),
		in(abi.CreateCQUserHandle, 8),
		opt(obj(channel, abi.CreateCQChannel, abi.ObjectCompChannel)),
		in(abi.CreateCQVector, 4),
		opt(inOf(abi.CreateCQFlags, 4, 8)),
		out(abi.CreateCQRespDepth, 4),
		opt(obj(async, abi.CreateCQAsync, abi.ObjectAsyncEvent)),
	)},
	{abi.ObjectCQ, abi.CQDestroy}: {run: (*call).destroyedCQ, attrs: []spec{
		obj(doomed, abi.DestroyHandle, abi.ObjectCQ),
		outStruct(abi.DestroyResp, abi.DestroyCQRespLen),
	}},
	{abi.ObjectQP, abi.QPCreate}: {run: (*call).createQP, attrs: uhw(
		obj(fresh, abi.CreateQPHandle, abi.ObjectQP),
		opt(obj(handle, abi.CreateQPXRCD, 10)),
		opt(obj(handle, abi.CreateQPPD, abi.ObjectPD)),
		opt(obj(handle, abi.CreateQPSRQ, 5)),
		opt(obj(handle, abi.CreateQPSendCQ, abi.ObjectCQ)),
		opt(obj(handle, abi.CreateQPRecvCQ, abi.ObjectCQ)),
		opt(obj(handle, abi.CreateQPIndTable, 11)),
		in(abi.CreateQPUserHandle, 8),
		inStruct(abi.CreateQPCaps, abi.QPCapLen),
		in(abi.CreateQPType, 8),
		opt(inOf(abi.CreateQPFlags, 4, 8)),
		opt(in(abi.CreateQPSourceQPN, 4)),
		opt(obj(async, abi.CreateQPAsync, abi.ObjectAsyncEvent)),
		outStruct(abi.CreateQPRespCaps, abi.QPCapLen),
		out(abi.CreateQPRespNumber, 4),
	)},
	{abi.ObjectQP, abi.QPDestroy}: {run: (*call).destroyedQP, attrs: []spec{
		obj(doomed, abi.DestroyHandle, abi.ObjectQP),
		out(abi.DestroyResp, abi.DestroyQPRespLen),
	}},
}
