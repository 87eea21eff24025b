// Package defects has programs that show defects of libfabric without efactor: testdata has
// a C program for each, which libfabric's developers can compile and run as they are, on an
// EFA device or on the emulated one. README.md lists them.
//
// The test runs each. Where the release is known to have the defect, it must be seen; where
// it is known not to have it, it must not; of other releases the test logs what it saw.
package defects
