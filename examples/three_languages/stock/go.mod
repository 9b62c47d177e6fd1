module acker.example/three-languages/stock

go 1.25

replace acker.example/acker => ../../../client/go

require (
	acker.example/acker v0.0.0
	github.com/rabbitmq/amqp091-go v1.16.0
)
