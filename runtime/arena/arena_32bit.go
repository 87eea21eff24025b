//go:build 386 || arm || mips || mipsle

package arena

// A message may be longer than an int of 32 bits holds, and registered memory lies at addresses of 64 bits, so
// efactor needs a processor of 64 bits: amd64, arm64 and others. docs/packages.md says so.
var _ = efactor_needs_a_processor_of_64_bits
