// Package mmio writes to memory of a device as the device wants it: descriptors in
// write-combining memory 64 bytes at a time, doorbells by one store, and between them the
// fences that the processor needs. Go has no such stores: sync/atomic is a locked
// read-modify-write on amd64, which a device's memory must not see, and a plain copy may
// become anything.
//
//	                      amd64                   arm64
//	Copy, Post  first     SFENCE                  DSB ST
//	            copy      MOVQ, 8 at a time       VLD1, VST1 of 64 bytes
//	Post        then      SFENCE, MOVL            DSB ST, MOVW
//	Store                 MOVL                    DMB OSHST, MOVW
//	ReadBarrier           nothing: loads are in   DMB OSHLD
//	                      order in ordinary memory
//
// The functions are assembly of one screen for each processor. Elsewhere, and with the
// build tag purego, they are Go (mmio_generic.go) for memory that is ordinary, an emulated
// device's: [Hardware] is false then, and a real device must not be used.
package mmio
