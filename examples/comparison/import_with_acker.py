"""An import with Acker, over RabbitMQ: ``python -m examples.comparison.import_with_acker``."""

import pika
from acker_client import Acker, FailTuple

from examples.comparison.rows import ROWS, WrongRow, load_row
from examples.comparison.store import RABBITMQ_URL

QUEUE = "acker-rows"


def send(acker: Acker) -> None:
    """One root for the import, which ends when all of its rows have ended."""
    with pika.BlockingConnection(pika.URLParameters(RABBITMQ_URL)) as connection:
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        with acker.shared_spout("imports").emit(message_id="import-1", end_on="all_ended") as root:
            for row in ROWS:
                properties = pika.BasicProperties(headers=root.headers(key=str(row)))
                channel.basic_publish("", QUEUE, str(row), properties)


def work(acker: Acker) -> None:
    """A worker, of many perhaps: a wrong row fails, and RabbitMQ delivers again what raises another error."""
    with pika.BlockingConnection(pika.URLParameters(RABBITMQ_URL)) as connection:
        channel = connection.channel()
        for method, properties, body in channel.consume(QUEUE, inactivity_timeout=1):
            if method is None:
                return
            with acker.receive(properties.headers, component="load", on_error="leave_open"):
                try:
                    load_row(int(body))
                except WrongRow as error:
                    raise FailTuple(str(error)) from error
            channel.basic_ack(method.delivery_tag)


def main() -> None:
    """Send the rows, work on them, and read the completion of the import."""
    with Acker.from_env(linger=0) as acker:
        send(acker)
        work(acker)
        ended: list[str] = []
        for completion in acker.shared_spout("imports").completions(stop=lambda: bool(ended)):
            ended.append(completion.root_id)
            print(f"all rows have ended, {completion.failures} failed")


if __name__ == "__main__":
    main()
