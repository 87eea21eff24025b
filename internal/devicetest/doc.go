// Package devicetest is the conformance suite of package device: [Run] checks a
// driver against the contract that device.QP states, case by case, and
// [Benchmark] measures it. [RunRDMA] is the part about memory, for drivers
// whose devices differ in these abilities. For a driver that has Info.Foreign, the same
// cases run with memory of a process that the suite starts: the test binary itself.
//
// A driver's test supplies a [Factory], which makes a fresh fabric with some
// devices for every case. Abilities that a driver lacks (killing a device,
// reporting it gone) it leaves out of its [Fabric]; the cases that need it say so and are
// left out of the run by name, so that a missing capability is visible in the
// driver's test and nowhere else.
//
// Start reading at suite.go; node.go has the helpers in which cases are written.
package devicetest
