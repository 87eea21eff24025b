// Package directtest is what holds for endpoints without the protocol
// (efa.EndpointConfig.Direct) on every device. The tests of the API run it on devices of
// software, those of the emulator on an EFA device.
package directtest
