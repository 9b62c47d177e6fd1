"""Which link templates from a message id are taken."""

import pytest
from acker_service.message_url import MAX_CHARACTERS, read_message_url


@pytest.mark.parametrize(
    "text",
    [
        "https://shop.example/orders/{message_id}",
        "http://127.0.0.1:8080/?id={message_id}",
        "HTTPS://shop.example/o#{message_id}",
        "https://shop.example/{message_id}/of/{message_id}?from=acker",
        "https://[::1]:8080/{message_id}",
    ],
)
def test_a_template_of_http_with_the_place_behind_its_host_is_taken(text: str) -> None:
    assert read_message_url(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "javascript:alert({message_id})",
        "data:text/html,{message_id}",
        "//shop.example/{message_id}",
        "shop.example/{message_id}",
        "https://shop.example/orders",
        "https://{message_id}.shop.example/",
        "https://{message_id}/",
        "https://shop.example:{message_id}/",
        "https://shop.example{message_id}",
        "https://user:secret@shop.example/{message_id}",
        "https://shop.example/{messageid}/{message_id}",
        "https://shop.example/{message_id",
        "https://shop.example/ {message_id}",
        "https://shop.example/\n{message_id}",
        'https://shop.example/"{message_id}',
        "https://shop.example\\{message_id}",
        "https://shöp.example/{message_id}",
        " https://shop.example/{message_id}",
        "ftp://shop.example/{message_id}",
    ],
)
def test_any_other_text_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no link template: write http:// or https://"):
        read_message_url(text)


def test_a_template_is_not_longer_than_browsers_take() -> None:
    with pytest.raises(ValueError, match="at most"):
        read_message_url(f"https://shop.example/{'a' * MAX_CHARACTERS}{{message_id}}")
