//go:build !purego

#include "textflag.h"

// func getg() uintptr
TEXT ·getg(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET

// func pause()
//
// One PAUSE gives the core to the other hyperthread for 24 ns on an AMD EPYC, and puts off the
// reaction by half of that. A ping-pong of 8 bytes took 440 ns one way without any, 465 with two
// and 559 with eight.
TEXT ·pause(SB), NOSPLIT, $0-0
	PAUSE
	RET
