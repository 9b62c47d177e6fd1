package acker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"acker.example/acker"
	"acker.example/acker/ackertest"
)

// BenchmarkProcess measures what a bolt spends on a message: read its header, fold its ack, and make a child, or none.
// Nothing is sent.
func BenchmarkProcess(b *testing.B) {
	b.Run("folded ack", func(b *testing.B) {
		process(b, func(context.Context, *acker.Tuple) error { return nil })
	})
	b.Run("ack with one child", func(b *testing.B) {
		process(b, func(_ context.Context, tuple *acker.Tuple) error {
			child, err := tuple.Anchor(acker.WithKey("0"))
			child.SetOn(acker.HTTP{})
			return err
		})
	})
}

func process(b *testing.B, run func(context.Context, *acker.Tuple) error) {
	const most = 1 << 30
	memory := ackertest.New(ackertest.WithoutDedupe())
	client, err := memory.Client(
		acker.WithLinger(time.Hour), acker.WithBatchSize(most), acker.WithBufferSize(most),
	)
	if err != nil {
		b.Fatal(err)
	}
	component := acker.WithComponent("split")
	at := 0
	for b.Loop() {
		at++
		// ten edges of each root
		value := fmt.Sprintf("00 default %016x-%016x", at/10*0x10000+1, at)
		if err := client.Process(b.Context(), acker.HTTP{acker.AnchorsHeader: {value}}, run, component); err != nil {
			b.Fatal(err)
		}
	}
}
