// Package local starts programs of several ranks as processes of this host, where
// no launcher has started it:
//
//	func main() { local.Run(4, run) } // run gets a context and the group
//
// A launcher takes precedence: under mpiexec, srun, torchrun, ... or with EFACTOR_RANK in
// the environment, run is called in this very process. Otherwise n copies of the program
// run it, and this process passes on their output and their exit status. In each of them
// launch.Init forms the group.
//
// The variables that make a process a rank are inherited by its children. A child
// outside the job needs EFACTOR_LAUNCHER=alone in its environment.
package local
