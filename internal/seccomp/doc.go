// Package seccomp lets one process decide about system calls of another (user
// notification, seccomp_unotify(2)): a filter sends the calls that it names to a
// [Listener], whose owner answers them or lets the kernel go on. The emulator of an
// EFA device is such a supervisor, and so are the tests in which calls fail.
package seccomp
