// Package eratest finds the packets on which an endpoint of a former release of
// libfabric would fail ([Judge]): a packet that ends its process, that raises an error
// event, whose headers it takes for data, or after which it waits for ever. The
// releases are described in actors/era.
//
// The package is pure: data and functions, no actors, no clock.
//
// Start reading at rules.go, then judge.go.
package eratest
