//go:build !linux

package main

import (
	"context"
	"errors"
	"math/rand/v2"
)

// resetter is for Linux alone.
type resetter struct{}

func newResetter() (*resetter, error) { return nil, errors.ErrUnsupported }

func (*resetter) Close() error { return nil }

func (*resetter) run(context.Context, *rand.Rand, float64, func()) {}
