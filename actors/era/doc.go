// Package era holds how the releases of libfabric's EFA provider differ on the
// wire: as data ([Profile]), by which an endpoint can talk as one of that time, and
// as a judge ([Judge]) of what such an endpoint would choke on.
package era
