// Package eratest has endpoints talk like a former release of libfabric ([TalkLike], [Device]), and
// finds the packets on which an endpoint of such a release would fail ([Judge]): a packet that ends
// its process, that raises an error event, whose headers it takes for data, or after which it waits
// for ever. The releases are described in internal/era.
//
// Start reading at device.go for the first, at rules.go, then judge.go, for the second, which is
// pure: data and functions, no actors, no clock.
package eratest
