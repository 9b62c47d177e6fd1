"""Tests the headers of messages of SQS and SNS, in each form in which they come."""

import json

import pytest
from acker_client import UsageError
from acker_client.sources.sqs import headers_of
from acker_client.testing import MemoryAcker

ANCHORS = "00 default 00000000000000aa-00000000000000bb"
OF_SNS = {"Acker-Anchors": {"Type": "String", "Value": ANCHORS}, "picture": {"Type": "Binary", "Value": "AAAA"}}
NOTIFICATION = {
    "Type": "Notification",
    "MessageId": "5a1b",
    "TopicArn": "arn:aws:sns:eu-west-1:123456789012:orders",
    "Message": "an order",
    "Timestamp": "2026-01-01T00:00:00.000Z",
    "MessageAttributes": OF_SNS,
}
RECORD = {
    "messageId": "059f36b4",
    "receiptHandle": "AQEB",
    "body": "an order",
    "attributes": {"ApproximateReceiveCount": "1", "SenderId": "AIDA"},
    "messageAttributes": {
        "Acker-Anchors": {"stringValue": ANCHORS, "stringListValues": [], "binaryListValues": [], "dataType": "String"},
        "picture": {"binaryValue": "AAAA", "stringListValues": [], "binaryListValues": [], "dataType": "Binary"},
    },
    "md5OfBody": "9bb58f26",
    "eventSource": "aws:sqs",
    "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:orders",
    "awsRegion": "eu-west-1",
}
FORMS = {
    "boto3": {
        "MessageId": "1",
        "Body": "an order",
        "MessageAttributes": {
            "Acker-Anchors": {"DataType": "String", "StringValue": ANCHORS},
            "picture": {"DataType": "Binary", "BinaryValue": b"AAAA"},
        },
    },
    "Lambda": RECORD,
    "SNS to SQS": {"MessageId": "1", "Body": json.dumps(NOTIFICATION, indent=2)},
    "SNS to SQS to Lambda": RECORD | {"body": json.dumps(NOTIFICATION), "messageAttributes": {}},
    "SNS to Lambda": {"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": NOTIFICATION},
    "a notification": NOTIFICATION,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_texts_among_the_attributes_of_a_message_are_its_headers(form):
    assert headers_of(FORMS[form]) == {"Acker-Anchors": ANCHORS}


@pytest.mark.parametrize("form", FORMS)
def test_a_message_in_each_form_is_a_tuple_with_its_anchors(form):
    with MemoryAcker().acker() as acker:
        assert acker.receive(headers_of(FORMS[form]), component="charge").tracked


@pytest.mark.parametrize(
    "message",
    [
        {"MessageId": "1", "Body": "an order"},
        {"MessageId": "1", "Body": '{"TopicArn": "of no notification"'},
        {"MessageId": "1", "Body": '["\\"TopicArn\\""]'},
        {"MessageId": "1", "Body": json.dumps(NOTIFICATION | {"Type": "SubscriptionConfirmation"})},
        RECORD | {"messageAttributes": {}},
        RECORD | {"messageAttributes": None},
    ],
)
def test_a_message_without_attributes_has_no_headers(message):
    assert headers_of(message) == {}


NO_MESSAGES = [{}, {"REQUEST_METHOD": "GET"}, {"Records": [RECORD]}, RECORD["messageAttributes"]]


@pytest.mark.parametrize("other", [*NO_MESSAGES, [RECORD], json.dumps(RECORD), None, {"Sns": json.dumps(NOTIFICATION)}])
def test_what_is_no_message_is_refused(other):
    with pytest.raises(UsageError, match="no message of SQS or SNS"):
        headers_of(other)


def test_attributes_of_the_message_itself_count_before_those_within_its_body():
    other = ANCHORS.replace("bb", "cc")
    message = FORMS["boto3"] | {"Body": json.dumps(NOTIFICATION).replace(ANCHORS, other)}
    assert headers_of(message)["Acker-Anchors"] == ANCHORS
