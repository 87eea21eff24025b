// Package era holds how the releases of libfabric's EFA provider differ on the
// wire, as data ([Profile]). Package internal/eratest has an endpoint talk like such a release,
// and finds the packets that it would fail on.
//
// Five releases were captured, 1.13.2, 1.17.0, 2.3.1, 2.6.0 and main (package internal/golden), and two
// builds of main that give messages up by a PEER_ERROR of 28 bytes and of 24. The latter stands in for 2.7.0.
// Endpoints with their profiles replay the captures (TestGolden of actors/endpoint), and
// those of 1.17.0 and 2.3.1 are checked against them here. Captures of 1.14.1, 1.18.2, 1.22.0 and
// 2.4.0, which are not kept, corrected the profiles of their time (testdata/era_*.txt of
// actors/endpoint). For the others it is known what was
// changed when, but not everything: where a behaviour changed somewhere between two
// known releases, a comment in the profile says what was assumed.
//
// The package is pure: data and functions, no actors, no clock. It is for tests.
package era
