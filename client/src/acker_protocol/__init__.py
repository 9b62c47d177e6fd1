"""The contract of Acker: ids, operations, state machine, wire forms, errors. Stdlib only, no I/O, no clock."""
