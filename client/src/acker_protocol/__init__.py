"""The words of Acker: ids, messages, the law, the wire form, the problems. No I/O, no clock, standard library only."""
