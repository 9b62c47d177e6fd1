"""A lock that is held for a moment, by the functions that take and release it.

Each function has two bodies: these, and those of ``locks.pxd``, which take their place in the compiled hot path.
"""

from _thread import LockType, allocate_lock

new_lock = allocate_lock
acquire, release = LockType.acquire, LockType.release
