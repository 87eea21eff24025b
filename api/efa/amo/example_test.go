package amo_test

import (
	"fmt"

	"github.com/efactor/efactor/api/efa/amo"
)

// Numbers of 16 bits, as they are in memory.
func ExampleHalf() {
	h, b := amo.ToFloat16(1.0/3), amo.ToBFloat16(1.0/3)
	fmt.Printf("%#x %.5f\n", uint16(h), h.Float16())
	fmt.Printf("%#x %.5f\n", uint16(b), b.BFloat16())
	// Output:
	// 0x3555 0.33325
	// 0x3eab 0.33398
}
