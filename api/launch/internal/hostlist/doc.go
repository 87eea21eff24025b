// Package hostlist reads Slurm's lists of nodes: "login1,node[01-03,7],rack[1-2]n[0-3]".
package hostlist
