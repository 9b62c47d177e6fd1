"""Orders from Kafka through two bolts to a webhook, while every process is killed."""
