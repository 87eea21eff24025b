// Package pp is the ping-pong benchmark, message for message as libfabric's
// fi_pingpong does it, so that the tool can be the other side. The control
// protocol that goes along with it is package ctrl.
//
// For each size the client sends a message and waits for one of the same size, as
// often as was asked for; the server does it the other way round. At the very end
// each side sends the four bytes "fin\0". Tagged messages all have [Tag].
//
// With Check the messages carry [Pattern], and both sides compare every byte that
// they receive. As in the tool that happens while the clock runs, so the times are
// those of a program that reads its data.
//
//	side, err := pp.Open(ctx, pp.Config{Device: "shm", Iterations: 1000, Sizes: sizes})
//	conn, err := ctrl.Dial(ctx, ctrl.AnyIP, "server", ctrl.DefaultPort, 0)
//	err = side.Run(ctx, conn, (&pp.Table{Out: os.Stdout}).Add)
//
// Start reading at [Side.Run].
package pp
