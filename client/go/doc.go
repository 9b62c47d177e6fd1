// Package acker is the client of an acker, which tells the sender of a message when everything that the message set
// off is done, or that a piece of it failed or took too long.
//
// A spout emits a root with the first messages, a bolt receives a message, makes children and acks it:
//
//	client, err := acker.New("http://127.0.0.1:8700", acker.WithTopology("orders"))
//	err = client.Process(ctx, acker.HTTP(request.Header), func(ctx context.Context, tuple *acker.Tuple) error {
//		child, err := tuple.Anchor(acker.WithKey("word-1"))
//		if err != nil {
//			return err
//		}
//		child.SetOn(acker.HTTP(next.Header)) // and send it
//		return nil
//	}, acker.WithComponent("split"))
//	err = client.Close(ctx)
//
// Acks wait for a moment (WithLinger) and are sent together in the background: call Close before the program ends.
// All methods may be called by many goroutines at once. All errors are *Error, but those of your own functions.
package acker
