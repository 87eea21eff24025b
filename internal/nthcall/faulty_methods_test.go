//go:build linux && (amd64 || arm64)

package nthcall

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// TestEachMethodCanFail: whatever gives an error in the interfaces of a device passes
// through the wrapper that has it fail.
func TestEachMethodCanFail(t *testing.T) {
	f := newFaults(row{})
	for name, w := range map[string]struct {
		face    reflect.Type
		wrapper any
	}{
		"Device": {reflect.TypeFor[device.Device](), &faultyDevice{f: f}},
		"QP":     {reflect.TypeFor[device.QP](), &faultyQP{f: f}},
		"MR":     {reflect.TypeFor[device.MR](), &faultyMR{f: f}},
	} {
		for i := range w.face.NumMethod() {
			m := w.face.Method(i)
			if n := m.Type.NumOut(); n == 0 || m.Type.Out(n-1) != reflect.TypeFor[error]() {
				continue
			}
			var args []reflect.Value
			for j := range m.Type.NumIn() {
				args = append(args, reflect.Zero(m.Type.In(j)))
			}
			func() {
				defer func() { _ = recover() }() // there is no device behind the wrapper
				reflect.ValueOf(w.wrapper).MethodByName(m.Name).Call(args)
			}()
			counts, _ := f.seen()
			require.Equal(t, 1, counts[name+"."+m.Name], "%s.%s does not fail", name, m.Name)
		}
	}
}
