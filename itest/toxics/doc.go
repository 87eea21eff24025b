// Package toxics tests the tcp device through toxiproxy: connections that are cut into
// slices, stalled, reset, or ended at an arbitrary point. A rule of nft on each host
// redirects its queue pair's connections to the proxy, which neither side sees.
package toxics
