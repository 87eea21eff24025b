// Package errno holds libfabric's error numbers and the EFA provider's own codes,
// so that operators find the numbers they know. Package efa exports them under the
// same names.
package errno
