//go:build linux

package trace

import (
	"fmt"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// Name is the name of a call of a method, or of write command cmd if that is what the method
// carries.
func Name(object, method uint16, cmd uint64) string {
	if object == abi.ObjectDevice && method == abi.DeviceInvokeWrite {
		if name := commandNames[cmd]; name != "" {
			return name
		}
		return fmt.Sprintf("command %#x", cmd)
	}
	if name := methodNames[[2]uint16{object, method}]; name != "" {
		return name
	}
	return fmt.Sprintf("object %d method %d", object, method)
}

var commandNames = map[uint64]string{
	abi.CmdQueryDevice:   "query device",
	abi.CmdQueryDeviceEx: "query device",
	abi.CmdAllocPD:       "alloc PD",
	abi.CmdCreateAH:      "create AH",
	abi.CmdRegMR:         "reg MR",
	abi.CmdCompChannel:   "create channel",
	abi.CmdQueryQP:       "query QP",
	abi.CmdModifyQP:      "modify QP",
}

var methodNames = map[[2]uint16]string{
	{abi.ObjectDevice, abi.DeviceQueryPort}:     "query port",
	{abi.ObjectDevice, abi.DeviceGetContext}:    "get context",
	{abi.ObjectDevice, abi.DeviceQueryGIDEntry}: "query GID",
	{abi.ObjectPD, abi.PDDestroy}:               "destroy PD",
	{abi.ObjectCQ, abi.CQCreate}:                "create CQ",
	{abi.ObjectCQ, abi.CQDestroy}:               "destroy CQ",
	{abi.ObjectQP, abi.QPCreate}:                "create QP",
	{abi.ObjectQP, abi.QPDestroy}:               "destroy QP",
	{abi.ObjectAH, abi.AHDestroy}:               "destroy AH",
	{abi.ObjectMR, abi.MRDestroy}:               "destroy MR",
	{abi.ObjectMR, abi.MRRegDMABuf}:             "reg MR of a dmabuf",
	{abi.ObjectAsyncEvent, abi.AsyncEventAlloc}: "create async",
}
