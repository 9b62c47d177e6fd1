"""What is printed on a terminal: text of others must not move its cursor, change its colours or begin a line."""


def printable(text: str) -> str:
    """Replace every character that is not printable, line ends included, so that a text stays one line."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
