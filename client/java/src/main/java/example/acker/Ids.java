package example.acker;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Ids of roots and edges: 64 bits, not all zero; on the wire 16 lowercase hex digits. An ack val is
 * the XOR of edge ids, and may be zero.
 */
final class Ids {
  static final int DIGITS = 16;

  /** The parent edge of an edge that a spout derives: a spout tuple has no parent. */
  static final long SPOUT_EDGE = 0;

  private static final HexFormat HEX = HexFormat.of();
  private static final SecureRandom SOURCE = new SecureRandom();
  private static final ByteBuffer DRAWN = ByteBuffer.allocate(4096).limit(0);

  private Ids() {}

  static String text(long id) {
    return HEX.toHexDigits(id);
  }

  /** Reads 16 lowercase hex digits; 0 for anything else. */
  static long parse(String text, int from) {
    long found = 0;
    for (int at = from; at < from + DIGITS; at++) {
      char digit = text.charAt(at);
      if ((digit < '0' || digit > '9') && (digit < 'a' || digit > 'f')) {
        return 0;
      }
      found = found << 4 | HexFormat.fromHexDigit(digit);
    }
    return found;
  }

  /** Draws a new id from the system's cryptographic source, which is asked for 512 ids at once. */
  static synchronized long draw() {
    while (true) {
      if (!DRAWN.hasRemaining()) {
        SOURCE.nextBytes(DRAWN.array());
        DRAWN.clear();
      }
      long found = DRAWN.getLong();
      if (found != 0) {
        return found;
      }
    }
  }

  static int drawInt() {
    return SOURCE.nextInt();
  }

  /**
   * Derives the edge id of a child, so that a re-run of the same work gives the same id.
   *
   * <p>It is the first 8 bytes of HMAC-SHA256, keyed with the root id, over the parent's edge id (8
   * bytes, zero at a spout), the component, a zero byte and the key, both in UTF-8. See
   * docs/anchors.md.
   */
  static long derive(long root, long parent, String component, String key) {
    byte[] first = component.getBytes(StandardCharsets.UTF_8);
    byte[] second = key.getBytes(StandardCharsets.UTF_8);
    ByteBuffer text = ByteBuffer.allocate(9 + first.length + second.length);
    text.putLong(parent).put(first).put((byte) 0).put(second);
    return ofDigest(root, hmac(bytes(root), text.array()));
  }

  /**
   * Returns the first 8 bytes of a digest as an id; if they are zero, those of the HMAC of the
   * whole digest.
   */
  static long ofDigest(long root, byte[] digest) {
    byte[] last = digest;
    while (true) {
      long found = ByteBuffer.wrap(last).getLong();
      if (found != 0) {
        return found;
      }
      last = hmac(bytes(root), last);
    }
  }

  private static byte[] bytes(long id) {
    return ByteBuffer.allocate(Long.BYTES).putLong(id).array();
  }

  /** Returns the HMAC-SHA256 of texts, one behind the other. */
  static byte[] hmac(byte[] key, byte[]... texts) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      for (byte[] each : texts) {
        mac.update(each);
      }
      return mac.doFinal();
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e); // every Java has it
    }
  }
}
