// Package toxics tests the tcp device through toxiproxy: connections that are cut into
// slices, stalled, reset, or ended in the middle of whatever they carry. A rule of nft
// on each host leads what its queue pair dials to the proxy, which neither side sees.
package toxics
