//go:build race

package death

// sampled is of how many faults at each step one is tried, by default.
const sampled = 40
