// Package otlp tests that spans reach a real OpenTelemetry collector: its OTLP receiver,
// built from its public packages.
package otlp
