// Package install finds a libfabric to build programs with and to run them on: the
// machine's own, or one in a folder, with headers, libraries, programs and perhaps a C
// library of another age, whose loader then starts the programs.
//
//	in, err := install.Find(os.Getenv(install.Variable))
//	exec.Command("gcc", append([]string{"-o", path, "a.c"}, in.Flags()...)...)
//	exec.Command(in.Command(path)[0], in.Command(path)[1:]...)
package install
