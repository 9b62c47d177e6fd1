"""The spout: takes orders from a queue of RabbitMQ, and sends each to the service that prices it."""

import os
import time

import httpx
import pika
from acker_client import Acker, Root

MESSAGE_TIMEOUT_S = 5.0


def main() -> None:
    """Emit a root for each order, until the process is ended."""
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["BROKER_URL"]))
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.basic_qos(prefetch_count=1)
    with Acker.from_env(startup_timeout=None) as acker, httpx.Client(trust_env=False) as http:
        acker.topologies.create("default", message_timeout=MESSAGE_TIMEOUT_S)
        acker.spouts.set_webhook("orders", os.environ["DONE_URL"], secret=os.environ["WEBHOOK_SECRET"])
        spout = acker.shared_spout("orders")
        for method, _, body in channel.consume("orders"):
            try:
                with spout.emit(message_id=body.decode()) as root:
                    http.post(os.environ["PRICE_URL"], content=body, headers=headers(root)).raise_for_status()
            except httpx.HTTPError:  # no init was sent: RabbitMQ delivers the order again
                channel.basic_nack(method.delivery_tag)
                time.sleep(0.2)
            else:  # from here on the acker says what becomes of it
                channel.basic_ack(method.delivery_tag)


def headers(root: Root) -> dict[str, str]:
    """Return the headers of the request, which is a child of the root."""
    return {"Content-Type": "text/plain"} | root.headers(key="price")


if __name__ == "__main__":
    main()
