//go:build unix && !linux

package sys

func adviseHuge([]byte) {}
