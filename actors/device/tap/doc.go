// Package tap shows the packets that cross a device: [Wrap] puts itself around
// any device.Device and hands every packet and RDMA request that its queue pairs send
// (once it was accepted) or receive to a [Sink]. Who wraps nothing pays nothing.
//
//	dev = tap.Wrap(dev, sink)
//
// Sinks: [Recorder] keeps records for tests, [Pcapng] writes a capture file for
// Wireshark and its kin.
package tap
