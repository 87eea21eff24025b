// Package settings has what can be set about the protocol, in one struct with one place
// of defaults.
//
// A program fills a Settings (package efa calls it ProtocolConfig). New makes an InForce of
// it, which adds what tests and the device decide, and InForce.On fills in the defaults for
// a device. The endpoint has one InForce, which the peers and the operations read, and one
// for each of its paths, since the switch points depend on the device.
package settings
