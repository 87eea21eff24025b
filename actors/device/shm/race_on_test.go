//go:build race

package shm

// raceOn: the detector is there. Tests in one goroutine do not need it and are ten
// times slower.
const raceOn = true
