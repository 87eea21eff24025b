// Package profile describes the EFA device that is emulated, and its kernel.
//
// [Named] finds the profiles by name, [Profile.Validate] checks one that was made by
// hand, and [For] removes the abilities that the software device below lacks: the
// kernel half and the engine are both made with its result.
package profile
