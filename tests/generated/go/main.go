// Calls an acker with the generated client, and gets an error from it: main URL KEY.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"acker/generated/client"
)

const (
	topology  = "default"
	spoutTask = "go-1"
	root      = "5f2c1e0b9a7d4837"
	edge      = "00f3a19c5be27d40"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run emits a root, acks it in a batch, reads its completion, and emits another message under its id.
func run(ctx context.Context, url, key string) error {
	withKey := client.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+key)
		return nil
	})
	acker, err := client.NewClientWithResponses(url, withKey)
	if err != nil {
		return err
	}
	if err := emit(ctx, acker); err != nil {
		return err
	}
	if err := apply(ctx, acker); err != nil {
		return err
	}
	waitMs := 5000
	read, err := acker.GetCompletionsWithResponse(ctx, topology, spoutTask, &client.GetCompletionsParams{WaitMs: &waitMs})
	if err != nil {
		return err
	}
	done := read.JSON200.Completions[0]
	fmt.Println("completion", done.Outcome, *done.MessageId)

	stranger, err := client.NewClientWithResponses(url)
	if err != nil {
		return err
	}
	denied, err := stranger.InitWithResponse(ctx, topology, nil, body(spoutTask))
	if err != nil {
		return err
	}
	problem := denied.ApplicationproblemJSON401
	fmt.Println("error", problem.Status, problem.Code, problem.Retryable)
	return nil
}

func body(spoutTask string) client.Init {
	messageID := "42"
	return client.Init{RootId: root, SpoutTask: spoutTask, Edges: &[]client.Id{edge}, MessageId: &messageID}
}

// emit emits the root, and once more for another spout task.
func emit(ctx context.Context, acker *client.ClientWithResponses) error {
	key := "go-1.42"
	emitted, err := acker.InitWithResponse(ctx, topology, &client.InitParams{IdempotencyKey: &key}, body(spoutTask))
	if err != nil {
		return err
	}
	answer, err := emitted.JSON200.AsInitAnswer()
	if err != nil {
		return err
	}
	fmt.Println("init", answer.State)

	refused, err := acker.InitWithResponse(ctx, topology, nil, body("another"))
	if err != nil {
		return err
	}
	problem := refused.ApplicationproblemJSON409
	fmt.Println("error", problem.Status, problem.Code, problem.Retryable, *problem.RootId)
	return nil
}

// apply acks the root in a batch.
func apply(ctx context.Context, acker *client.ClientWithResponses) error {
	ops := make([]client.BatchOperation, 2)
	if err := ops[0].FromResetTimeoutInBatch(client.ResetTimeoutInBatch{RootId: root}); err != nil {
		return err
	}
	edgeID := client.Id(edge)
	if err := ops[1].FromAckInBatch(client.AckInBatch{RootId: root, EdgeId: &edgeID}); err != nil {
		return err
	}
	applied, err := acker.BatchWithResponse(ctx, topology, nil, client.Batch{Ops: ops})
	if err != nil {
		return err
	}
	results, err := applied.JSON200.AsBatchAnswer()
	if err != nil {
		return err
	}
	fmt.Println("batch", results.Accepted, results.Results[0], results.Results[1])
	return nil
}
