// Package memory reads and writes the memory of an emulated device's user: a
// program under supervision, or this process.
//
//	[Process]  another process, by process_vm_readv(2) and process_vm_writev(2),
//	           with the kernel's leave (ptrace_may_access) at each transfer
//	[Self]     this process, in the same way: a bad address is an error, no crash
//
// Nothing is pinned: a transfer meets what is mapped at that address now.
package memory
