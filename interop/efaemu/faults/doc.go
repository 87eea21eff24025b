// Package faults has what an emulated device can be told to do wrong, as a list such as
// "length@5,command@20=ENOMEM": a [Plan]. The engine and the kernel half ask it at each
// completion, command and registration.
package faults
