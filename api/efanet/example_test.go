package efanet_test

import (
	"bufio"
	"context"
	"fmt"
	"log"

	"github.com/efactor/efactor/api/efanet"
)

// A listener in shared memory, and a connection to it: usually of another process.
func ExampleListen() {
	ctx := context.Background()
	l, err := efanet.Listen(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			log.Print(err)
			return
		}
		defer c.Close()
		fmt.Fprintln(c, "hello")
	}()

	c, err := efanet.Dial(ctx, l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	fmt.Print(line, err)
	// Output:
	// hello
	// <nil>
}
