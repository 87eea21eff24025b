// Package trace records what a program tells its emulated device: every ioctl with its
// attributes and inputs, mappings with length and protection, and at each doorbell its
// value and the descriptors that it hands over. The lines contain no numbers that differ
// from run to run: handles, descriptors, keys, addresses, numbers of queue pairs and of
// requests are symbols, such as mr1+0x40. So traces of two drivers can be compared.
//
//	0.0 reg MR: 0x2(8) 0x0(40) 0x1(12) = ok
//	  0x2: 09000000 +4
//	  0x0: - mr0+0x0 00001000 00000000 mr0+0x0 pd0 01000000
//	map qp0 LLQ: 8192 bytes, write, shared
//	qp0 send bell 1
//	  r0 b01c qp0 0800 bebafeca ahn0 0000 44332211 +12 | 696e6c69 6e652100 +24
//
// "+12" are 12 bytes of zeros. Doorbells and mappings are looked at before each ioctl:
// of several values of one doorbell in between, the last is seen. A program that wants each
// seen makes a mark, an ioctl of object [Mark], which no device knows, after each step; the
// method is a number that the trace shows. Lines about files opened later begin with their
// number: "1: ".
//
// A [Recorder] wraps the files of the device and asks nothing of the emulator. It knows the
// layouts of package abi, and trusts nothing that it reads: what cannot be is shown as bytes.
//
// Start reading at recorder.go.
package trace
