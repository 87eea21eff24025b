// Package errno holds libfabric's error numbers and the EFA provider's own codes,
// so that operators read here what they know from there. Package efa exports
// them under the same names.
package errno
