//go:build !linux

package tcp

// advise adds to an error what to do about it, where that is known.
func advise(err error) error { return err }
