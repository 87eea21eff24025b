// Package fakesysfs makes trees that look like a host's /sys with EFA devices, for tests.
package fakesysfs
