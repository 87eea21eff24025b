package efa_test

import (
	"context"
	"fmt"
	"log"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// A server in a few lines: it answers every message.
func ExampleEndpoint_Reply() {
	client, server, to, done := two()
	defer done()
	go func() {
		for d, err := range server.Messages(context.Background()) {
			if err != nil {
				return
			}
			_ = server.Reply(context.Background(), d.Message, append([]byte("hello, "), d.Body...)) // the client's loss
			d.Release()
		}
	}()
	if err := client.Send(context.Background(), to, []byte("gopher")); err != nil {
		log.Fatal(err)
	}
	answer, err := client.Next(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", answer.Body)
	answer.Release()
	// Output: hello, gopher
}

// TestReply: everyone whose message was received can be answered, in an address vector or not.
func TestReply(t *testing.T) {
	for _, device := range []string{"sim", "shm", "tcp", "auto"} {
		t.Run(device, func(t *testing.T) {
			if device != "sim" && runtime.GOOS != "linux" {
				t.Skip("shm and tcp need Linux")
			}
			ctx := testContext(t)
			var shared efa.Device
			if device == "sim" {
				var err error
				shared, err = efa.OpenDevice("sim")
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, shared.Close()) })
			}
			open := func() *efa.Endpoint {
				ep, err := efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{Device: shared, DeviceName: device}})
				require.NoError(t, err)
				t.Cleanup(func() { _ = ep.Close() })
				return ep
			}
			server, client := open(), open()
			to, err := client.AddressVector().Insert(server.Address())
			require.NoError(t, err)
			buf := make([]byte, 16)
			ask := func(tagged bool) efa.Message {
				if tagged {
					require.NoError(t, client.SendTag(ctx, to, 7, []byte("question")))
					m, err := server.RecvTag(ctx, efa.Match{Tag: 7}, buf)
					require.NoError(t, err)
					return m
				}
				require.NoError(t, client.Send(ctx, to, []byte("question")))
				m, err := server.Recv(ctx, buf)
				require.NoError(t, err)
				return m
			}
			m := ask(false)
			require.Equal(t, efa.NoAddr, m.From)
			require.NoError(t, server.Reply(ctx, m, []byte("answer")))
			got, err := client.Recv(ctx, buf)
			require.NoError(t, err)
			require.Equal(t, "answer", string(buf[:got.N]))

			m = ask(true)
			at, err := server.Sender(m)
			require.NoError(t, err)
			require.Equal(t, at, m.From, "it is known now")
			require.Equal(t, 1, server.AddressVector().Len())
			require.NoError(t, server.Reply(ctx, m, []byte("tagged")))
			got, err = client.RecvTag(ctx, efa.Match{Tag: 7}, buf)
			require.NoError(t, err)
			require.Equal(t, "tagged", string(buf[:got.N]))

			stranger := open()
			to, err = stranger.AddressVector().Insert(server.Address())
			require.NoError(t, err)
			require.NoError(t, stranger.Send(ctx, to, []byte("question")))
			m, err = server.Recv(ctx, buf)
			require.NoError(t, err)
			require.NoError(t, stranger.Close())
			err = server.Reply(ctx, m, []byte("too late"), efa.Complete(efa.Delivered))
			require.ErrorIs(t, err, efa.ErrPeerFailed)

			require.ErrorIs(t, server.Reply(ctx, efa.Message{}, nil), efa.ErrInvalid)
		})
	}
}
