package echo

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// method is that of a service whose messages are the BytesValue of protobuf, so that
// nothing must be generated.
const method = "/efactor.Echo/Call"

var service = grpc.ServiceDesc{
	ServiceName: "efactor.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Call",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			m := new(wrapperspb.BytesValue)
			return m, decode(m)
		},
	}},
}

func serveGRPC(ctx context.Context, _ Plan, ready func(string)) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	s.RegisterService(&service, nil)
	defer context.AfterFunc(ctx, s.Stop)()
	ready(l.Addr().String())
	return s.Serve(l)
}

type grpcCaller struct{ conn *grpc.ClientConn }

func dialGRPC(_ context.Context, _ Plan, addr string) (caller, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return &grpcCaller{conn}, err
}

func (c *grpcCaller) call(ctx context.Context, question []byte) ([]byte, error) {
	answer := new(wrapperspb.BytesValue)
	err := c.conn.Invoke(ctx, method, wrapperspb.Bytes(question), answer)
	return answer.GetValue(), err
}

func (c *grpcCaller) close() error { return c.conn.Close() }
