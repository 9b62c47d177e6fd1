# The types of hot_path.py for Cython, which compiles it where that is possible. The interpreter does not read this file.

import cython
from acker_client._core cimport id_map, locks, wire_ids

ctypedef unsigned long long Id

cdef object _ABSENT
cdef object _get_open_batches
cdef long long MIN_OUTSTANDING
cdef long long MAX_OUTSTANDING
cdef Id MARK_MASK
cdef Py_ssize_t _CLOSED
cdef Py_ssize_t _NEVER
cdef Py_ssize_t _NAME_LENGTH
cdef Py_ssize_t _WSGI_LENGTH
cdef str ANCHORS
cdef bytes _INNER_REST
cdef bytes _OUTER_REST
cdef Id _INNER_PAD
cdef Id _OUTER_PAD

cdef class EdgeSet
cdef class FoldedAck
cdef class FoldedOperations
cdef class OpenBuffer
cdef class TopologySession
cdef class TupleContext
cdef class ReceivedTuple

@cython.locals(named=dict, length=Py_ssize_t)
cdef object _find_value(object headers)
cdef object _read_value(object value, str prefix)

@cython.final
@cython.freelist(64)
cdef class EdgeSet:
    cdef readonly Id root_id
    cdef readonly Id edge_id
    cdef readonly Id ack_val
    cdef readonly long long outstanding
    cdef readonly list children
    cdef readonly long long unkeyed
    cdef str _component
    cdef bint _numbered
    cdef set _keys
    cdef bytes _inner
    cdef bytes _outer

    cpdef begin(self, Id root_id, Id edge_id, str component, bint numbered)

    @cython.locals(root=Id, message=bytes, digest=bytes, edge=Id)
    cpdef Id derive(self, str key) except? 0

    @cython.locals(chosen=str, edge=Id)
    cpdef Id add_child(self, object key) except? 0

cpdef list add_child(object parents, object key)

@cython.no_gc
@cython.freelist(1024)
@cython.final
cdef class FoldedAck:
    cdef Id root_id
    cdef Id ack_val
    cdef long long outstanding
    cdef Id edge_id
    cdef str component
    cdef object edges
    cdef Py_ssize_t acks

@cython.final
cdef class FoldedOperations:
    cdef readonly list records
    cdef object _folds

    @cython.locals(fold=FoldedAck, at=Py_ssize_t, before=Py_ssize_t)
    cpdef fold_ack(self, Id root, Id edge, Id ack_val, long long outstanding, str component)

    @cython.locals(fold=FoldedAck, count=cython.longlong)
    cdef bint _add_to_fold(self, Py_ssize_t at, Id edge, Id ack_val, long long outstanding, str component) except -1

cdef class TopologySession:
    cdef public object cached_info

cdef class OpenBuffer:
    cdef public Py_ssize_t batch_size
    cdef public Py_ssize_t buffer_size
    cdef public list failures
    cdef public FoldedOperations folded
    cdef public Py_ssize_t frozen_operations
    cdef public bint is_flushing
    cdef public bint is_lingering
    cdef object lock

cdef class TupleContext:
    cdef set _components
    cdef readonly OpenBuffer buffer
    cdef bint folds
    cdef object info
    cdef public object make_tuple
    cdef readonly str prefix
    cdef readonly object driver
    cdef readonly TopologySession session
    cdef readonly object submitter
    cdef readonly str topology
    cdef readonly type tuple_class

    @cython.locals(own=ReceivedTuple)
    cpdef ack(self, object tup, bint flush)

    @cython.locals(tuple_class=type, made=ReceivedTuple, root=Id, edge=Id, more=tuple)
    cpdef receive(self, object headers, object component, object on_error, bint repeatable)

cdef class ReceivedTuple:
    cdef public object _around
    cdef readonly TupleContext _context
    cdef Id _edge
    cdef public list _edges
    cdef public str _end
    cdef str _keys_needed
    cdef object _made_by
    cdef tuple _more
    cdef Id _root
    cdef readonly str component
    cdef readonly object on_error
    cdef readonly bint repeatable

    cpdef begin(self, TupleContext context, Id root, Id edge, tuple more, str component, object on_error, bint repeatable)

    @cython.locals(parents=list, prefix=str, own=EdgeSet)
    cpdef dict headers(self, object key=*)

    cpdef list parents(self, object key)

    @cython.locals(own=EdgeSet)
    cpdef list _make_edges(self, str name)

    @cython.locals(buffer=OpenBuffer, lock=object, must_flush=bint)
    cpdef submit_ack(self, TupleContext context, bint dropped, bint flush)

    @cython.locals(folded=FoldedOperations, root=Id, edges=list, own=EdgeSet, before=Py_ssize_t, added=Py_ssize_t, in_last_batch=Py_ssize_t)
    cdef bint _buffer(self, OpenBuffer buffer, TupleContext context, object info, bint dropped) except -1

@cython.locals(fold=FoldedAck, last=str, number=cython.uint, numbers=dict, packed=bytearray)
cpdef bytes pack(list records)
