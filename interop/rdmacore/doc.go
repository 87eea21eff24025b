// Package rdmacore holds tests in which the rdma-core of a distribution, libibverbs
// with libefa, uses the emulated device: real, unmodified libraries accept the
// emulator through whole lives of every object, and the emulator's strict mode finds
// no error in their use.
//
// testdata has C programs of one concept each. A test compiles them, runs them under
// "efaemu run -strict" and compares the lines that they print, one for each step,
// with testdata/NAME.golden; -rewrite writes these anew. The programs check more
// than they print, and every wait in them ends.
//
// The other half compares libefa with this repository's driver: scripts (testdata/trace-*.script)
// are played on both under "efaemu run -trace", and the traces must be the same but for the
// differences that are listed. EFACTOR_LIBFABRIC names a folder with another libefa than the
// machine's, as .ci/libfabric unpacks it.
//
// Without compiler, headers or what the emulator needs of the kernel the tests are
// skipped; with CI=true in the environment they fail.
//
// Start reading at golden_test.go, then testdata/step.h and ends.h; trace_test.go, then
// player_test.go and differences_test.go.
package rdmacore
