"""Reads the headers of messages of SQS and SNS, in every form in which a program gets them."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from acker_client.errors import UsageError

MESSAGE_KEYS = frozenset({"MessageAttributes", "messageAttributes", "Body", "body", "Message"})
"""Each message of SQS or SNS has one of these: of boto3, in an event of Lambda, of SNS."""


def headers_of(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes of a message that are texts, the anchors among them.

    It is a message of boto3, or a record of an event of Lambda, from SQS or SNS. Where SNS has sent it to SQS without
    raw delivery, the attributes are within its body. Raises `UsageError` for what is no such message.
    """
    found = message.get("Sns", message) if isinstance(message, Mapping) else {}
    if not isinstance(found, Mapping) or not found.keys() & MESSAGE_KEYS:
        raise UsageError(
            f"this is no message of SQS or SNS, which has one of {', '.join(sorted(MESSAGE_KEYS))}: give each record "
            "of an event; headers of HTTP, and the environ of WSGI, go to receive() as they are"
        )
    return _read_notification(found.get("Body", found.get("body"))) | _texts(found)


def _texts(message: Mapping[str, Any]) -> dict[str, str]:
    attributes = message.get("MessageAttributes") or message.get("messageAttributes") or {}
    return {
        name: own[key]
        for name, own in attributes.items()
        for key in ("StringValue", "stringValue", "Value")  # of boto3, of Lambda, of SNS
        if key in own and own.get("Type") != "Binary"
    }


def _read_notification(body: Any) -> dict[str, str]:
    """Read the attributes of a notification of SNS; none of any other body."""
    if not isinstance(body, str) or '"TopicArn"' not in body:
        return {}
    with suppress(ValueError):
        notification = json.loads(body)
        if isinstance(notification, dict) and notification.get("Type") == "Notification":
            return _texts(notification)
    return {}
