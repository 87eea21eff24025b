package abi

// Objects: Header.Object.
const (
	ObjectDevice      = 0
	ObjectPD          = 1
	ObjectCompChannel = 2
	ObjectCQ          = 3
	ObjectQP          = 4
	ObjectAH          = 6
	ObjectMR          = 7
	ObjectAsyncEvent  = 16
	ObjectDMABuf      = 18 // newer than 6.1
	ObjectCompCounter = 19 // newer than 6.1
)

// Driver data of any method that has it.
const (
	AttrUHWIn  = 0x1000
	AttrUHWOut = 0x1001
)

// Methods of ObjectDevice: Header.Method.
const (
	DeviceInvokeWrite   = 0
	DeviceQueryPort     = 2
	DeviceGetContext    = 3
	DeviceQueryGIDEntry = 6
)

// Attributes of DeviceInvokeWrite.
const (
	InvokeCoreIn   = 0
	InvokeCoreOut  = 1
	InvokeWriteCmd = 2 // u64: a write command
)

// Write commands: those without a method of their own.
const (
	CmdQueryDevice   = 1
	CmdAllocPD       = 3
	CmdCreateAH      = 5
	CmdRegMR         = 9
	CmdCompChannel   = 17
	CmdQueryQP       = 25
	CmdModifyQP      = 26
	CmdExtended      = 1 << 31
	CmdQueryDeviceEx = CmdExtended | CmdQueryDevice
	CmdMask          = 0xff // of the number, beside CmdExtended
)

// Attributes of DeviceQueryPort.
const (
	QueryPortNumber = 0 // u64 that is a u8
	QueryPortResp   = 1
)

// Attributes of DeviceGetContext.
const (
	ContextCompVectors = 0 // u32 out
	ContextCoreSupport = 1 // u64 out: CoreOptionalAccess
)

// CoreOptionalAccess is a bit of ContextCoreSupport: AccessOptional is tolerated.
const CoreOptionalAccess = 1 << 0

// Attributes of DeviceQueryGIDEntry.
const (
	GIDEntryPort  = 0 // u64 that is a u32
	GIDEntryIndex = 1 // u64 that is a u32
	GIDEntryFlags = 2 // u32
	GIDEntryResp  = 3
)

// PDDestroy is the method of ObjectPD.
const PDDestroy = 0

// DestroyHandle is the attribute of every destroying method that names the object;
// those of CQs and QPs have DestroyResp, too.
const (
	DestroyHandle = 0
	DestroyResp   = 1
)

// Methods of ObjectCQ.
const (
	CQCreate  = 0
	CQDestroy = 1
)

// Attributes of CQCreate.
const (
	CreateCQHandle     = 0 // out
	CreateCQEntries    = 1 // u32
	CreateCQUserHandle = 2 // u64
	CreateCQChannel    = 3 // descriptor, optional
	CreateCQVector     = 4 // u32
	CreateCQFlags      = 5 // u32, optional
	CreateCQRespDepth  = 6 // u32 out: entries
	CreateCQAsync      = 7 // descriptor, optional
)

// Methods of ObjectQP.
const (
	QPCreate  = 0
	QPDestroy = 1
)

// Attributes of QPCreate.
const (
	CreateQPHandle     = 0  // out
	CreateQPXRCD       = 1  // not of EFA
	CreateQPPD         = 2  // handle
	CreateQPSRQ        = 3  // not of EFA
	CreateQPSendCQ     = 4  // handle
	CreateQPRecvCQ     = 5  // handle
	CreateQPIndTable   = 6  // not of EFA
	CreateQPUserHandle = 7  // u64
	CreateQPCaps       = 8  // QPCap
	CreateQPType       = 9  // u64: QPTypeDriver or QPTypeUD
	CreateQPFlags      = 10 // u32, optional: QPAllSignalled
	CreateQPSourceQPN  = 11 // not of EFA
	CreateQPAsync      = 12 // descriptor, optional
	CreateQPRespCaps   = 13 // QPCap out
	CreateQPRespNumber = 14 // u32 out
)

// AHDestroy is the method of ObjectAH.
const AHDestroy = 0

// Methods of ObjectMR.
const (
	MRDestroy   = 1
	MRRegDMABuf = 4
)

// Attributes of MRRegDMABuf.
const (
	DMABufHandle = 0 // out
	DMABufPD     = 1 // handle
	DMABufOffset = 2 // u64
	DMABufLength = 3 // u64
	DMABufIOVA   = 4 // u64
	DMABufFD     = 5 // u32: descriptor of the buffer
	DMABufAccess = 6 // u32: Access...
	DMABufLKey   = 7 // u32 out
	DMABufRKey   = 8 // u32 out
)

// AsyncEventAlloc is the method of ObjectAsyncEvent, AsyncEventFD its attribute: a
// new descriptor.
const (
	AsyncEventAlloc = 0
	AsyncEventFD    = 0
)
