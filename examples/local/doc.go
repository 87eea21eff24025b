// Package local starts programs of several ranks as processes of this host, for examples
// that want to run without a launcher, too:
//
//	func main() { local.Main(4, run) }
//
// What started the program goes first: under mpiexec, srun, torchrun, ... or with
// EFACTOR_RANK in the environment, run is called in this very process. Otherwise n copies
// of the program run it, and this process passes on what they print and how they end.
// In each of them launch.Init forms the group.
package local
