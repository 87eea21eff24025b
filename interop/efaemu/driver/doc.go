// Package driver runs this repository's EFA driver (actors/device/uverbs) on emulated
// devices in this process: a [Card] is one, with its engine. Tests of the driver use it, as
// the driver itself may not know of the emulator.
package driver
