// Package otlp exports spans to an OpenTelemetry collector by HTTP and JSON, with
// nothing but the standard library: the protocol's JSON form is small enough to show.
// A program with more needs takes go.opentelemetry.io/otel/exporters/otlp.
package otlp
