package acker_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"acker.example/acker"
	"acker.example/acker/ackertest"
)

// A spout emits a line, one bolt splits it into words, another counts them; the spout reads how it ended.
func Example() {
	ctx := context.Background()
	client, err := ackertest.New().Client() // in a program: acker.New("http://127.0.0.1:8700")
	if err != nil {
		log.Fatal(err)
	}
	spout, err := client.Spout("lines")
	if err != nil {
		log.Fatal(err)
	}
	line := acker.HTTP{} // the headers of a message
	err = spout.Emit(ctx, "42", func(ctx context.Context, _ *acker.Root) error {
		return acker.Inject(ctx, line)
	})
	var words []acker.HTTP
	split := func(_ context.Context, tuple *acker.Tuple) error {
		for _, word := range []string{"to", "be"} {
			child, err := tuple.Anchor(acker.WithKey(word))
			if err != nil {
				return err
			}
			words = append(words, acker.HTTP{})
			child.SetOn(words[len(words)-1])
		}
		return nil
	}
	err = errors.Join(err, client.Process(ctx, line, split, acker.WithComponent("split")))
	count := func(context.Context, *acker.Tuple) error { return nil }
	for _, word := range words {
		err = errors.Join(err, client.Process(ctx, word, count, acker.WithComponent("count")))
	}
	err = errors.Join(err, client.Close(ctx))
	fmt.Println(len(words), "words, error:", err)
	// Output: 2 words, error: <nil>
}
