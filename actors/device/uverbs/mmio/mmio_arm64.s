//go:build !purego

#include "textflag.h"

// DSB $14 is DSB ST, DMB $2 is DMB OSHST, DMB $1 is DMB OSHLD.

// func Copy(dst, src *byte, n uintptr)
TEXT ·Copy(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	DSB  $14
	CBZ  R2, done
loop:
	VLD1.P 64(R1), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0)
	SUB    $1, R2
	CBNZ   R2, loop
done:
	RET

// func ring(db *uint32, v uint32)
TEXT ·ring(SB), NOSPLIT, $0-12
	MOVD db+0(FP), R3
	MOVWU v+8(FP), R4
	DSB  $14
	MOVW R4, (R3)
	RET

// func Store(db *uint32, v uint32)
TEXT ·Store(SB), NOSPLIT, $0-12
	MOVD db+0(FP), R0
	MOVWU v+8(FP), R1
	DMB  $2
	MOVW R1, (R0)
	RET

// func ReadBarrier()
TEXT ·ReadBarrier(SB), NOSPLIT, $0-0
	DMB $1
	RET
