package mmio

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCopies: what is copied and stored, in memory where that can be seen.
func TestCopies(t *testing.T) {
	src := make([]byte, 20*64)
	for i := range src {
		src[i] = byte(i*7 + i>>8)
	}
	var db [3]uint32
	for n := range 17 {
		for _, ring := range []bool{false, true} {
			dst := make([]byte, len(src))
			if db[1] = 5; ring {
				Post(&dst[64], &src[128], uintptr(n), &db[1], 0xfedcba98)
				require.Equal(t, [3]uint32{0, 0xfedcba98, 0}, db)
			} else {
				Copy(&dst[64], &src[128], uintptr(n))
				require.EqualValues(t, 5, db[1])
			}
			require.Equal(t, src[128:128+n*64], dst[64:64+n*64])
			require.Equal(t, make([]byte, 64), dst[:64])
			require.Equal(t, make([]byte, len(dst)-64-n*64), dst[64+n*64:])
		}
	}
	Store(&db[1], 77)
	ReadBarrier()
	require.Equal(t, [3]uint32{0, 77, 0}, db)
}

// stores are, for each processor, the instructions of the functions that matter to a
// device: fences, and stores in their order.
var stores = map[string]map[string][]string{
	"amd64": {
		"Copy": append([]string{"SFENCE"}, words...),
		"ring": {"SFENCE", "MOVL AX, 0(DI)"},
		"Store": {
			"MOVL AX, 0(DI)",
		},
	},
	"arm64": {
		"Copy":        {"DSB $14", lines},
		"ring":        {"DSB $14", "MOVW R4, (R3)"},
		"Store":       {"DMB $2", "MOVW R1, (R0)"},
		"ReadBarrier": {"DMB $1"},
	},
}

// words are the stores of 64 bytes, ascending; lines is the one of arm64.
var words = []string{
	"MOVQ AX, 0(DI)", "MOVQ BX, 0x8(DI)", "MOVQ DX, 0x10(DI)", "MOVQ R8, 0x18(DI)",
	"MOVQ R9, 0x20(DI)", "MOVQ R10, 0x28(DI)", "MOVQ R11, 0x30(DI)", "MOVQ R12, 0x38(DI)",
}

const lines = "VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0)"

// TestInstructions assembles the functions for each processor, whatever this one is, and
// compares what they do to memory with the table.
func TestInstructions(t *testing.T) {
	for arch, want := range stores {
		got := disassemble(t, arch)
		require.Len(t, got, len(want), arch)
		for f, w := range want {
			require.Equal(t, w, got[f], "%s of %s", f, arch)
		}
	}
}

// disassemble returns the fences and stores of each function, locked instructions, and any
// other access to memory that is no load.
func disassemble(t *testing.T, arch string) map[string][]string {
	t.Helper()
	object := filepath.Join(t.TempDir(), "mmio.o")
	run := func(args ...string) string {
		cmd := exec.Command("go", append([]string{"tool"}, args...)...)
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output() // the tool's own place; runtime's is empty with -trimpath
	require.NoError(t, err)
	include := filepath.Join(strings.TrimSpace(string(root)), "pkg", "include")
	run("asm", "-p", "mmio", "-I", include, "-o", object, "mmio_"+arch+".s")
	found, function := map[string][]string{}, ""
	for line := range strings.Lines(run("objdump", object)) {
		if name, ok := strings.CutPrefix(line, "TEXT mmio."); ok {
			function, _, _ = strings.Cut(name, "(")
			found[function] = []string{}
			continue
		}
		columns := strings.FieldsFunc(line, func(r rune) bool { return r == '\t' || r == '\n' })
		if len(columns) < 4 {
			continue
		}
		text := strings.TrimSpace(columns[3])
		op, args, _ := strings.Cut(text, " ")
		fence := slices.Contains([]string{"SFENCE", "MFENCE", "LFENCE", "DSB", "DMB", "ISB", "LOCK", "XCHGL", "XCHGQ"}, op)
		if target := args[strings.LastIndex(args, " ")+1:]; fence || strings.HasSuffix(target, ")") && !strings.HasSuffix(target, "(PC)") {
			found[function] = append(found[function], text)
		}
	}
	return found
}
