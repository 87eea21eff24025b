package main

const usage = `Usage:
  pingpong [flags]           both processes on this host; -S all -c unless one is given
  pingpong [flags] -server   wait for a client, an efactor or a fi_pingpong
  pingpong [flags] host      connect to a server, an efactor or a fi_pingpong

As fi_pingpong's; -I, -S, -c, -m, -f and -e must be the same on both sides:
  -I n         messages each way for each size (10; with both processes on this host
               as many as take a tenth of a second, 10,000 at most, after a warm-up)
  -S size      bytes of a message: 8, 64k, 1m...; "all" for 1 to 16m; "tool" for what
               fi_pingpong means by all, 0 to 6m (64, 256, 1k, 4k, 64k and 1m)
  -c           check every byte, while the clock runs
  -m mode      msg or tagged (msg)
  -f fabric    efa, or efa-direct: no protocol, messages up to the MTU (efa). The tool of
               libfabric 2 needs -f efa to meet the first: its own default is efa-direct
  -e type      rdm, or dgram: unreliable datagrams, no protocol, messages up to the MTU (rdm)
  -P port      the server's control port, for the client (47592)
  -B port      our own control port (server: 47592, client: any)
  -6           control connection over IPv6 only

Further:
  -device name    shm, shm:DIR..., of shared memory with ?host=NAME for another GID (shm)
  -progress mode  auto, manual or pinned (auto)
  -tagged         same as -m tagged
  -warmup n       messages each way that go before each size, and are not counted; the same
                  on both sides (of -I a tenth with both processes on this host, else 0)
  -json           one JSON object per size instead of a table
  -capture file   write the packets to a pcapng file, while the clock runs
`
