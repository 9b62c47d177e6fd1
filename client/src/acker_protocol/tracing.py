"""Which roots are traced: a share of them, chosen by their ids, so that every process chooses the same ones.

A root that is traced by hand, with ``trace`` in its init, has an id that ends with four zeros (`mark`) where the
Python client draws it. The id travels with every tuple, so each process knows which acks have to name their edges, and
Redis keeps the trace of such a root from its first ack on, even before its init. One of 65,536 ids ends so by chance:
its acks name their edges too, which changes nothing else.
"""

MARK_MASK = 0xFFFF
"""The bits that are zero in the id of a root that is traced by hand."""
SAMPLE_RANGE = 2**32
SAMPLE_MULTIPLIER = 2_654_435_761
"""That of Knuth's multiplicative hash: ids that count up are spread evenly, too."""


def threshold(share: float) -> int:
    """Return the number below which the sample of a traced root is, from 0 for none to ``SAMPLE_RANGE`` for all."""
    return min(SAMPLE_RANGE, round(share * SAMPLE_RANGE))


def sample(root_id: int) -> int:
    """Hash a root id into 32 bits."""
    return ((root_id ^ root_id >> 32) & 0xFFFFFFFF) * SAMPLE_MULTIPLIER & 0xFFFFFFFF


def is_sampled(root_id: int, share: float) -> bool:
    """Whether a root is in the share that a topology traces."""
    return sample(root_id) < threshold(share)


def is_marked(root_id: int) -> bool:
    """Whether the id of a root says that it may be traced by hand."""
    return not root_id & MARK_MASK


def mark(root_id: int) -> int:
    """Turn a drawn root id into one that says that its root is traced by hand."""
    return root_id & ~MARK_MASK or MARK_MASK + 1
