// Package inproc opens an emulated device in this process: a [File] takes the calls
// that a descriptor of /dev/infiniband/uverbsN would take, without any system call
// being trapped. Tests of the emulator use it, and a driver written in Go that makes
// its calls through an interface can be tested against it.
//
// It refuses what a kernel refuses of mmap: the descriptor of package kernel is a
// memfd, which cannot.
package inproc
