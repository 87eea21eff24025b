// Package waterfall draws spans in a terminal: a line for each span and one for each
// of its events, on a common time axis.
package waterfall
