// Package spans keeps the OpenTelemetry spans of a test and writes them as text, one
// line for a span and one for each of its events, so that they can be compared with a
// file. Times are left out.
//
// It checks what holds of all spans: that their names stand in the tables of package
// telemetry, that both sides of an operation are in one trace, that events are within
// their span's time.
package spans
