"""Credit cards authorised by plain processes around RabbitMQ: orders that nothing can lose or charge twice."""
