"""One pipeline four times: with Acker, Dramatiq groups, FastStream and a counter, and Storm; see docs/comparison.md.

A spout sends lines, `split` sends their words, `count` counts each word in a store that is away at first; a word that
is not a word is dropped and reported. The sender learns when every word of a line is counted.

And one import four times: with Acker, a chord of Celery, a group of Dramatiq and a flow of BullMQ. Of 30 rows three
fail; the sender learns when all have ended, and how many failed.
"""
