"""One pipeline four times: with Acker, Dramatiq groups, FastStream and a counter, and Storm; see docs/comparison.md.

A spout sends lines, `split` sends their words, `count` counts each word in a store that is away at first; a word that
is not a word is dropped and reported. The sender learns when every word of a line is counted.
"""
