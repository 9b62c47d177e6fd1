package example.acker;

/** One edge of one root. */
record Anchor(long root, long edge) {
  @Override
  public String toString() {
    return Ids.text(root) + "-" + Ids.text(edge);
  }
}
