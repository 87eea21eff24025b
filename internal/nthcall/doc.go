// Package nthcall is a test alone: a program opens two endpoints on a device, connects
// them, moves data in every way and closes them; each system call that it makes, and each
// call of its device, fails once.
//
//	parent (the test)                        child (the test binary again)
//	rows, table   --- row --->               one round: open, enable, connect, traffic, close
//	              <-- report ---             errors by step, what was left behind
//	supervisor    <== seccomp notification ==  every system call of Go code
//
// No code of the devices has a hook for it. A seccomp filter sends the system calls that
// come out of package syscall to the parent (those of the Go runtime itself have other
// instruction addresses), which counts them by number and answers the n-th by an error
// number that the call may give. So the rows are what the program was seen to call. Calls of the
// device (queue pairs, registrations, address handles, posts) fail by a wrapper of
// device.Device.
//
// A row is closed if the round ends within its bound, in success (the fault was absorbed,
// and all data were right) or with an error that says what failed; and if neither
// descriptors, goroutines, files nor mappings are left. After an error of a moment (no descriptors, no
// memory) the next message each way must arrive as well.
package nthcall
