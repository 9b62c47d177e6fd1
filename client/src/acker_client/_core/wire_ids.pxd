# The bodies of wire_ids.py in the compiled hot path: the same functions, over the bytes themselves.

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

cdef extern from "Python.h":
    int PyUnicode_1BYTE_KIND
    int PyUnicode_KIND(object text)
    unsigned char *PyUnicode_1BYTE_DATA(object text)
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    object PyBytes_FromStringAndSize(char *content, Py_ssize_t size)
    char *PyBytes_AS_STRING(object content)
    Py_ssize_t PyByteArray_GET_SIZE(object content)
    int PyByteArray_Resize(object content, Py_ssize_t size) except -1
    char *PyByteArray_AS_STRING(object content)

ctypedef unsigned long long Id


cdef extern from *:
    """
    static const signed char acker_digits[256] = {
        #define ACKER_NO -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1
        ACKER_NO, ACKER_NO, ACKER_NO,
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1, -1, -1, -1, -1,
        ACKER_NO, ACKER_NO,
        -1, 10, 11, 12, 13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        ACKER_NO, ACKER_NO, ACKER_NO, ACKER_NO, ACKER_NO, ACKER_NO, ACKER_NO, ACKER_NO, ACKER_NO
    };
    """
    const signed char *acker_digits


cdef inline Id _read_digits(const unsigned char *digits) noexcept:
    """Read 16 lowercase hex digits; zero for anything else."""
    cdef Id value = 0
    cdef int wrong = 0
    cdef int digit
    cdef int at
    for at in range(16):
        digit = acker_digits[digits[at]]
        wrong |= digit
        value = value << 4 | (digit & 15)
    return 0 if wrong < 0 else value


cdef inline (Id, Id) read_two(object value, str prefix):
    cdef Py_ssize_t start = PyUnicode_GET_LENGTH(prefix)
    cdef const unsigned char *text
    if type(value) is not str or PyUnicode_GET_LENGTH(value) != start + 33:
        return 0, 0
    if PyUnicode_KIND(value) != PyUnicode_1BYTE_KIND or PyUnicode_KIND(prefix) != PyUnicode_1BYTE_KIND:
        return 0, 0
    text = PyUnicode_1BYTE_DATA(value)
    if memcmp(text, PyUnicode_1BYTE_DATA(prefix), start) != 0 or text[start + 16] != c"-":
        return 0, 0
    return _read_digits(text + start), _read_digits(text + start + 17)


cdef inline void _write_digits(unsigned char *to, Id value) noexcept:
    cdef int at
    for at in range(15, -1, -1):
        to[at] = b"0123456789abcdef"[value & 15]
        value >>= 4


cdef inline str write_two(str prefix, Id root, Id edge):
    cdef Py_ssize_t start = PyUnicode_GET_LENGTH(prefix)
    cdef object text = PyUnicode_New(start + 33, 127)
    cdef unsigned char *to = PyUnicode_1BYTE_DATA(text)
    memcpy(to, PyUnicode_1BYTE_DATA(prefix), start)
    _write_digits(to + start, root)
    to[start + 16] = c"-"
    _write_digits(to + start + 17, edge)
    return <str>text


cdef inline void _put_four(char *to, uint32_t value) noexcept:
    to[0] = value >> 24 & 255
    to[1] = value >> 16 & 255
    to[2] = value >> 8 & 255
    to[3] = value & 255


cdef inline void _put_eight(char *to, Id value) noexcept:
    _put_four(to, <uint32_t>(value >> 32))
    _put_four(to + 4, <uint32_t>value)


cdef inline void pack_ack(
    bytearray records, Id root, Id ack_val, Id edge, long long outstanding, uint32_t component
) except *:
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(records)
    cdef char *to
    PyByteArray_Resize(records, size + 52)
    to = PyByteArray_AS_STRING(records) + size
    _put_four(to, 0x00020001)
    _put_four(to + 4, <uint32_t>outstanding)
    _put_eight(to + 8, root)
    _put_eight(to + 16, ack_val)
    _put_eight(to + 24, edge)
    memset(to + 32, 0, 16)
    _put_four(to + 48, component)


cdef inline bytes id_bytes(Id value):
    cdef object content = PyBytes_FromStringAndSize(NULL, 8)
    _put_eight(PyBytes_AS_STRING(content), value)
    return <bytes>content


cdef inline Id first_id(bytes content) noexcept:
    cdef const unsigned char *text = <const unsigned char *>PyBytes_AS_STRING(content)
    cdef Id value = 0
    cdef int at
    for at in range(8):
        value = value << 8 | text[at]
    return value
