package example.acker;

/** A placeholder until the filter stands. */
final class BoltFilter {}
