// Package suite lists what is measured: the cases, in the order of their value, so that a
// run that is out of time has the first ones.
package suite
