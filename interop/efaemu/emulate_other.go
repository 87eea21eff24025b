//go:build !linux || !(amd64 || arm64)

package main

import "errors"

func (*options) emulate() (int, error) {
	return statusBroken, errors.New("programs can be supervised on Linux only, on amd64 and arm64")
}

func check() int { return fail(1, errors.ErrUnsupported) }

func play() {}
