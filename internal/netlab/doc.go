// Package netlab makes hosts for tests: network namespaces on a switch, with loss, rate
// limits, delay, broken cables and firewalls. It needs root, and ip, nft and tc.
//
//	namespace of host 1      of the switch             of host 2
//	eth0 10.77.0.1 ==veth== h1 -- bridge, nft -- h2 ==veth== eth0 10.77.0.2
//	     tap <-- this process holds packets for a while --> tap      (Options.Delay)
//
// The switch has a namespace of its own, so nothing of the machine's network is
// touched. A lab goes with its test; those of a process that died are removed
// by the next one: their names carry its pid and when it began.
//
// Programs get into a host by [Host.Command], functions by [Host.Do]. Interfaces get
// worse and better by methods of [Host] and [Lab] at any time.
//
// Start reading at lab_linux.go.
package netlab
