package mpi

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestVersion: lines that MPICH 4.0.2 and Open MPI 4.1.4 printed.
func TestVersion(t *testing.T) {
	for line, want := range map[string]string{
		"    Version:                                 4.0.2": "4.0.2",
		"mpirun (Open MPI) 4.1.4":                            "4.1.4",
		"mpirun.openmpi (OpenRTE) 4.1.4":                     "4.1.4",
		"mpirun":                                             "",
		"HYDRA build details:":                               "",
		"":                                                   "",
	} {
		assert.Equal(t, want, version([]byte(line)), line)
	}
}

func TestCommand(t *testing.T) {
	m := MPI{launchers: []string{"nowhere-to-be-found"}, arguments: func(int) []string { return []string{"-x"} }}
	assert.Equal(t, []string{"nowhere-to-be-found", "-x", "-y", "-n", "2", "program"}, m.Command(2, "program", "-y"))
}
