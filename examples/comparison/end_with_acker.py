"""End a running import with Acker, over RabbitMQ: ``python -m examples.comparison.end_with_acker``."""

import pika
from acker_client import Acker

from examples.comparison.rows import ENDED_AFTER, MANY_ROWS, load_row_slowly
from examples.comparison.store import RABBITMQ_URL

QUEUE = "acker-many-rows"


def send(acker: Acker) -> str:
    """Send the rows, and return the id of their root."""
    with pika.BlockingConnection(pika.URLParameters(RABBITMQ_URL)) as connection:
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        with acker.shared_spout("large-imports").emit(message_id="import-1") as root:
            for row in MANY_ROWS:
                properties = pika.BasicProperties(headers=root.headers(key=str(row)))
                channel.basic_publish("", QUEUE, str(row), properties)
        return root.root_id


def work(acker: Acker, root_id: str) -> int:
    """Import rows, of which somebody ends the import, until none is left; return how many were imported."""
    imported = 0
    with pika.BlockingConnection(pika.URLParameters(RABBITMQ_URL)) as connection:
        channel = connection.channel()
        for method, properties, body in channel.consume(QUEUE, inactivity_timeout=1):
            if method is None:
                break
            with acker.receive(properties.headers, component="load") as tup:
                if not tup.skip_if_ended():
                    load_row_slowly(int(body))
                    imported += 1
            channel.basic_ack(method.delivery_tag)
            if imported == ENDED_AFTER:
                acker.roots.fail(root_id, "stopped by an operator")
    return imported


def main() -> None:
    """Send the rows, work on them, end the import, and read its completion."""
    with Acker.from_env() as acker:
        imported = work(acker, send(acker))
        ended: list[str] = []
        for completion in acker.shared_spout("large-imports").completions(stop=lambda: bool(ended)):
            ended.append(completion.root_id)
            print(f"{completion.outcome}, {completion.reason}: {imported} of {len(MANY_ROWS)} rows imported")


if __name__ == "__main__":
    main()
