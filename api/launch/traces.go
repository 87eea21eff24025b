package launch

import (
	"strconv"
	"strings"
)

// traces are variables that a launcher gives to each of its processes, and by which alone the
// others cannot be met: the launcher is one that is not spoken here, or other variables of its
// are not set. A process with one of them that took itself for alone would be one of several
// that all do.
var traces = []struct {
	name, size string // of the variables; a size of 1 is that of a process that is alone
	without    string // those that are missing: if they are there, another reason has ruled the launcher out
	why        string
}{
	{envRendezvous, envSize, envRank, envRank + " is not set"},
	{envRendezvousFD, envSize, envRank, envRank + " is not set"},
	{"TORCHELASTIC_RUN_ID", "WORLD_SIZE", "RANK", "RANK is not set"},
	{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK is not set"},
	{"PALS_RANKID", envPMISize, envPMIFD, "PALS has set no descriptor of PMI-1, " + envPMIFD},
	{"FLUX_TASK_RANK", "FLUX_JOB_SIZE", envPMIFD, "Flux has set no descriptor of PMI-1, " + envPMIFD},
	{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "", "MVAPICH2's launcher has set no descriptor of PMI-1, " + envPMIFD},
	{"ALPS_APP_PE", "", "", "aprun does not say where to meet"},
	{"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "", "jsrun does not say where to meet"},
	{envPMIRank, envPMISize, envPMIFD, envPMIFD + " is not set"},
	{envPMIPort, envPMISize, envPMIID, envPMIID + " is not set"},
	{envPMIID, envPMISize, envPMIPort, envPMIPort + " is not set"},
	{"PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "", "PMIx is not spoken here"},
	{"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_PROCID is not set"},
}

// findHalf is an error if there are traces of a launcher, but no way to the other ranks.
func (e *environment) findHalf() error {
	for _, t := range traces {
		s := e.get(t.name)
		if s == "" || t.without != "" && e.get(t.without) != "" || t.size != "" && e.get(t.size) == "1" || t.name == "SLURM_STEP_ID" && specialStep(s) {
			continue
		}
		return e.half(t.name, t.why)
	}
	// A batch script has SLURM_PROCID=0 and no step.
	if rank := e.get("SLURM_PROCID"); rank != "" && rank != "0" && e.get("SLURM_STEP_ID") == "" {
		return e.half("SLURM_PROCID", "SLURM_STEP_ID is not set")
	}
	return e.findHalfTorchrun()
}

// findHalfTorchrun looks at variables that are so plain that they may mean anything, unless a
// rank comes with another of them.
func (e *environment) findHalfTorchrun() error {
	var there, missing []string
	for _, name := range torchrunVars {
		if e.get(name) == "" {
			missing = append(missing, name)
		} else {
			there = append(there, name)
		}
	}
	switch {
	case len(there) == 0 || e.get("WORLD_SIZE") == "1":
	case len(there) > 1 && e.get("RANK") != "":
		return e.half(strings.Join(there, ", "), "not set: "+strings.Join(missing, ", "))
	default:
		e.cfg.Logger.Warn("launch: this process is alone, although others of torchrun's variables are set",
			"set", strings.Join(there, ", "), "not set", strings.Join(missing, ", "))
	}
	return nil
}

func (e *environment) half(names, why string) error {
	return bad("this process seems to be one of several (%s), but %s: start each with %s, %s and %s, or with %s=%s",
		names, why, envRank, envSize, envRendezvous, envLauncher, aloneName)
}

// specialStep reports whether a step of Slurm's has no command of the user's: batch scripts,
// salloc's interactive step, ssh sessions.
func specialStep(id string) bool {
	const first = 0xfffffff0
	n, err := strconv.ParseUint(id, 10, 32)
	return err == nil && n >= first
}
