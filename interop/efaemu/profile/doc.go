// Package profile says which EFA device is emulated, under which kernel.
//
// [Named] knows the profiles by name, [Profile.Validate] checks one that was made by
// hand, and [For] takes away what the software device below cannot do: the kernel
// half and the engine are both made with what it returns.
package profile
