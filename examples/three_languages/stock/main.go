// Command stock reserves an order, and sends it on to be invoiced: a bolt behind net/http that publishes to RabbitMQ.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"acker.example/acker"
	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	connection, err := amqp.Dial(os.Getenv("BROKER_URL"))
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	if _, err := channel.QueueDeclare("invoices", true, false, false, false, nil); err != nil {
		return err
	}
	return serve(channel, connection.NotifyClose(make(chan *amqp.Error, 1)))
}

// serve answers requests until SIGTERM, or until the broker has gone: whoever runs this starts it again.
func serve(channel *amqp.Channel, closed <-chan *amqp.Error) error {
	client, err := acker.FromEnv()
	if err != nil {
		return err
	}
	bolt, err := client.Bolt(reserve(channel), acker.WithComponent("stock"))
	if err != nil {
		return err
	}
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: bolt, ReadHeaderTimeout: 5 * time.Second}
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		select {
		case <-stopped.Done():
		case <-closed:
		}
		_ = server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return client.Close(context.Background())
}

// reserve is the bolt: what it sends on is a child of the request's tuple, and its answer acks that.
func reserve(channel *amqp.Channel) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		ctx, headers := request.Context(), amqp.Table{}
		order, err := io.ReadAll(request.Body)
		if err == nil {
			err = acker.Inject(ctx, acker.AMQP(headers), acker.WithKey("invoice"))
		}
		if err == nil {
			err = publish(ctx, channel, amqp.Publishing{Headers: headers, DeliveryMode: amqp.Persistent, Body: order})
		}
		if err != nil {
			http.Error(response, err.Error(), http.StatusInternalServerError)
			return
		}
		response.WriteHeader(http.StatusNoContent)
	}
}

// publish sends a message on, and returns once the broker has it.
func publish(ctx context.Context, channel *amqp.Channel, message amqp.Publishing) error {
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", "invoices", false, false, message)
	if err != nil {
		return err
	}
	taken, err := confirmation.WaitContext(ctx)
	if err == nil && !taken {
		err = errors.New("RabbitMQ did not take the order")
	}
	return err
}
