"""The lines to count, and a store that is away for its first calls."""

import os
from collections import Counter

LINES = {"line-1": "the fox and the dog", "line-2": "room 2 is free", "line-3": ""}
"""The lines, by message id. The second one has a word that cannot be counted, the third one no word."""

RABBITMQ_URL = os.environ.get("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/%2F")
REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")


class StoreAway(Exception):
    """The store does not answer. Trying again helps."""


class Store:
    """Counts words by key: a word that is added again under its key counts once."""

    def __init__(self, *, away_for_calls: int = 2) -> None:
        self._words: dict[str, str] = {}
        self._away_for_calls = away_for_calls

    def add(self, key: str, word: str) -> None:
        """Store a word. Raises `StoreAway`."""
        if self._away_for_calls > 0:
            self._away_for_calls -= 1
            raise StoreAway("the store is away")
        self._words[key] = word

    def counts(self) -> Counter[str]:
        """Return how often each word was counted."""
        return Counter(self._words.values())
