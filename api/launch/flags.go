package launch

import "flag"

// AddFlags adds flags for the variables of the environment, to be parsed before Init:
// -launch.rank, -launch.size and so on. They take precedence over the environment.
func (cfg *Config) AddFlags(fs *flag.FlagSet) {
	fs.StringVar(&cfg.Launcher, "launch.launcher", cfg.Launcher, "take this `launcher`, not the first that is found")
	fs.IntVar(&cfg.Rank, "launch.rank", cfg.Rank, "this process's rank, with -launch.size")
	fs.IntVar(&cfg.Size, "launch.size", cfg.Size, "number of ranks, of which each was started with its -launch.rank")
	fs.StringVar(&cfg.Rendezvous, "launch.rendezvous", cfg.Rendezvous, "where rank 0 waits for the others, `host:port`")
	fs.StringVar(&cfg.Job, "launch.job", cfg.Job, "a `name` that no other job has")
	fs.BoolVar(&cfg.Insecure, "launch.insecure", cfg.Insecure, "connect to other hosts even without a job secret")
	fs.DurationVar(&cfg.Timeout, "launch.timeout", cfg.Timeout, "how long to wait for other ranks; 0: "+envTimeout+", or "+DefaultTimeout.String())
	fs.StringVar(&cfg.Fabric.DeviceName, "launch.device", cfg.Fabric.DeviceName, "`device` to use, as efa.OpenDevice names them")
	fs.TextVar(&cfg.Addr, "launch.addr", cfg.Addr, "this host's IP `address` for the others")
	fs.Func("launch.secret-file", "`file` with the job secret", func(path string) (err error) {
		cfg.Secret, err = readSecretFile(path)
		return err
	})
}
