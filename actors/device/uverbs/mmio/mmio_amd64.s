//go:build !purego

#include "textflag.h"

// func Copy(dst, src *byte, n uintptr)
TEXT ·Copy(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	SFENCE
	TESTQ CX, CX
	JZ    done
loop:
	MOVQ 0(SI), AX
	MOVQ 8(SI), BX
	MOVQ 16(SI), DX
	MOVQ 24(SI), R8
	MOVQ 32(SI), R9
	MOVQ 40(SI), R10
	MOVQ 48(SI), R11
	MOVQ 56(SI), R12
	MOVQ AX, 0(DI)
	MOVQ BX, 8(DI)
	MOVQ DX, 16(DI)
	MOVQ R8, 24(DI)
	MOVQ R9, 32(DI)
	MOVQ R10, 40(DI)
	MOVQ R11, 48(DI)
	MOVQ R12, 56(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  loop
done:
	RET

// func ring(db *uint32, v uint32)
TEXT ·ring(SB), NOSPLIT, $0-12
	MOVQ db+0(FP), DI
	MOVL v+8(FP), AX
	SFENCE
	MOVL AX, 0(DI)
	RET

// func Store(db *uint32, v uint32)
TEXT ·Store(SB), NOSPLIT, $0-12
	MOVQ db+0(FP), DI
	MOVL v+8(FP), AX
	MOVL AX, 0(DI)
	RET
