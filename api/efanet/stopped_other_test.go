//go:build !unix

package efanet_test

import "errors"

// readFrom is the process that is stopped, where processes can be.
func readFrom(string) error { return errors.ErrUnsupported }
