# The bodies of locks.py in the compiled hot path: the lock of the platform, which goes with the object that has it.

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    PyThread_type_lock,
    WAIT_LOCK,
)

cdef enum:
    IS_INTERPRETED = 0


cdef inline void _free(object lock) noexcept:
    PyThread_free_lock(<PyThread_type_lock>PyCapsule_GetPointer(lock, NULL))


cdef inline object new_lock():
    cdef PyThread_type_lock lock = PyThread_allocate_lock()
    if lock is NULL:
        raise MemoryError("a lock")
    return PyCapsule_New(<void *>lock, NULL, _free)


cdef inline void acquire(object lock) except *:
    cdef PyThread_type_lock held = <PyThread_type_lock>PyCapsule_GetPointer(lock, NULL)
    if not PyThread_acquire_lock(held, NOWAIT_LOCK):
        with nogil:
            PyThread_acquire_lock(held, WAIT_LOCK)


cdef inline void release(object lock) except *:
    PyThread_release_lock(<PyThread_type_lock>PyCapsule_GetPointer(lock, NULL))
