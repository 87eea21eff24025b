// Package job is efactor's part in a measurement: what its processes do. The program starts
// itself again for each run, with a [Job] as an argument, and reads the [Result].
package job
