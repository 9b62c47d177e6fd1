"""A lock that is held for a moment, by the functions that take and release it.

Each function has two bodies: these, and those of ``locks.pxd``, which take their place in the compiled hot path.

A signal handler may raise wherever the interpreter looks for signals: behind every call, but not between the start of a
``with`` block of a lock of ``_thread`` and its body. So where ``IS_INTERPRETED``, a lock is only taken by ``with``;
compiled code looks for no signals.
"""

from _thread import LockType, allocate_lock

IS_INTERPRETED = True
new_lock = allocate_lock
acquire, release = LockType.acquire, LockType.release
