package example.acker;

/** What an ack does when the buffer is full. */
public enum OnFull {
  /** It waits for space. */
  BLOCK,
  /** It throws {@link AckerException.BufferFull}; the tuple is unchanged. */
  THROW
}
