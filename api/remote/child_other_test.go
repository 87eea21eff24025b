//go:build !unix

package remote_test

func child() bool { return false }
