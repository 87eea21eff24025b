// Package local starts programs of several ranks as processes of this host, for examples
// that want to run without a launcher, too:
//
//	func main() { local.Main(4, run) }
//
// What started the program goes first: under mpiexec, srun, torchrun, ... or with
// EFACTOR_RANK in the environment, run is called in this very process. Otherwise n copies
// of the program run it, and this process passes on what they print and how they end.
// In each of them launch.Init forms the group.
//
// The variables that make a process a rank go on to what that starts in turn. A program
// that is none of the job's needs EFACTOR_LAUNCHER=alone in its environment.
package local
