// Grpc is a grpc-go server and its client over shared memory instead of sockets: they are what
// they always were but for the listener and the dialer.
//
//	cd examples/grpc
//	go run .                      # prints the address that it listens at
//	go run . -connect ADDRESS
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/efactor/efactor/api/efanet"
)

func main() {
	connect := flag.String("connect", "", "be the client of the server at this `address`")
	flag.Parse()
	run := serve
	if *connect != "" {
		run = call
	}
	if err := run(context.Background(), *connect); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, _ string) error {
	l, err := efanet.Listen(ctx, "") // instead of net.Listen
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	return s.Serve(l)
}

func call(ctx context.Context, addr string) error {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithContextDialer(efanet.Dial),
		grpc.WithTransportCredentials(insecure.NewCredentials())) // shared memory is of this user alone
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	fmt.Println(answer.GetStatus())
	return nil
}
