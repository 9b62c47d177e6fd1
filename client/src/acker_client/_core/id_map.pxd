# The bodies of id_map.py in the compiled hot path: an open hash in a bytearray, so that no number becomes an object.

from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    object PyByteArray_FromStringAndSize(const char *content, Py_ssize_t size)
    int PyByteArray_Resize(object content, Py_ssize_t size) except -1
    char *PyByteArray_AS_STRING(object content)
    object PyBytes_FromStringAndSize(const char *content, Py_ssize_t size)
    char *PyBytes_AS_STRING(object content)

ctypedef unsigned long long Id

cdef struct Slot:
    Id id  # zero where none is
    Py_ssize_t number

cdef struct Table:
    Py_ssize_t used
    int bits  # it has 2**bits slots, of which at most half are used
    Slot slots[1]


cdef inline Py_ssize_t _size(int bits) noexcept:
    return sizeof(Table) + sizeof(Slot) * ((<Py_ssize_t>1 << bits) - 1)


cdef inline Table *_table(object ids) noexcept:
    return <Table *>PyByteArray_AS_STRING(ids)


cdef inline Slot *_slot(Table *table, Id id) noexcept:
    """Find the slot that has an id, or the empty one where it belongs."""
    cdef Id last = (<Id>1 << table.bits) - 1
    cdef Id at = (id * <Id>0x9E3779B97F4A7C15ULL) >> (64 - table.bits)
    while table.slots[at].id != 0 and table.slots[at].id != id:
        at = (at + 1) & last
    return &table.slots[at]


cdef inline object new_map():
    cdef object ids = PyByteArray_FromStringAndSize(NULL, _size(4))
    memset(PyByteArray_AS_STRING(ids), 0, _size(4))
    _table(ids).bits = 4
    return ids


cdef inline void _grow(object ids) except *:
    cdef int bits = _table(ids).bits
    cdef object old = PyBytes_FromStringAndSize(PyByteArray_AS_STRING(ids), _size(bits))
    cdef Table *before = <Table *>PyBytes_AS_STRING(old)
    cdef Table *table
    cdef int more = bits + (2 if bits < 12 else 1)
    cdef Py_ssize_t at
    PyByteArray_Resize(ids, _size(more))
    table = _table(ids)
    memset(table, 0, _size(more))
    table.used = before.used
    table.bits = more
    for at in range(<Py_ssize_t>1 << bits):
        if before.slots[at].id:
            _slot(table, before.slots[at].id)[0] = before.slots[at]


cdef inline Py_ssize_t find(object ids, Id id, Py_ssize_t otherwise) noexcept:
    cdef Slot *slot = _slot(_table(ids), id)
    return slot.number if slot.id else otherwise


cdef inline Py_ssize_t claim(object ids, Id id, Py_ssize_t number) except? -1:
    cdef Table *table = _table(ids)
    cdef Slot *slot = _slot(table, id)
    if slot.id:
        return slot.number
    slot.id = id
    slot.number = number
    table.used += 1
    if table.used >> (table.bits - 1):
        _grow(ids)
    return number


cdef inline void put(object ids, Id id, Py_ssize_t number) except *:
    claim(ids, id, number)
    _slot(_table(ids), id).number = number
