// Package emulator runs programs with the emulated EFA device of interop/efaemu: it
// builds the emulator, asks whether it can work here, and makes command lines.
package emulator
