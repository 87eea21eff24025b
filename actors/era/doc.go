// Package era holds how the releases of libfabric's EFA provider differ on the
// wire: as data ([Profile]), by which an endpoint can talk as one of that time, and
// as a judge ([Judge]) of what such an endpoint would choke on.
//
// Two releases were captured, 1.17.0 and 2.3.1 (package internal/golden), and their
// profiles are checked against the captures. Of the others what was changed when is
// known, but not everything: where a habit changed somewhere between two releases
// whose habits are known, profile by profile a comment says what was assumed.
//
// The package is pure: data and functions, no actors, no clock.
package era
