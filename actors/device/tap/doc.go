// Package tap shows the packets that cross a device: [Wrap] wraps any device.Device
// and hands every packet and RDMA request that its queue pairs send (once it was
// accepted) or receive to a [Sink]. A device that is not wrapped has no overhead.
//
//	dev = tap.Wrap(dev, sink)
//
// Sinks: [Recorder] keeps records for tests, [Pcapng] writes a capture file for
// Wireshark and similar programs.
package tap
