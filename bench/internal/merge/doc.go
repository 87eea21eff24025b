// Package merge sums up what several whole runs came to, as docs/performance.md has it: for
// each case and peer the median of the runs' ratios with its range, and whether the figures
// to reach ([Aimed]) were reached.
package merge
