package example.acker;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.regex.Pattern;

/** Checks of what a program gives, by the contract of the acker. */
final class Checks {
  static final int MAX_NAME_LENGTH = 128;
  private static final int MAX_MESSAGE_ID_BYTES = 1024;
  private static final Duration MIN_TIMEOUT = Duration.ofMillis(100);
  private static final Duration MAX_TIMEOUT = Duration.ofDays(7);
  private static final int MOST_SHOWN = 40;
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,127}");
  private static final Pattern TRACEPARENT =
      Pattern.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}");

  private Checks() {}

  /** Returns whether text is a name of the contract. */
  static boolean isName(String text) {
    return NAME.matcher(text).matches();
  }

  static String name(String what, String text) {
    if (text == null || !isName(text)) {
      throw new AckerException.Usage(
          what
              + " must be a name: a letter or digit, then up to 127 letters, digits, dots, dashes, underscores; not "
              + shown(text));
    }
    return text;
  }

  /** Refuses text that UTF-8 cannot write: half of a surrogate pair. */
  static void text(String what, String text) {
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
      throw new AckerException.Usage(what + " must be valid Unicode, not " + shown(text));
    }
  }

  static void messageId(String text) {
    if (text == null) {
      throw new AckerException.Usage("the message id must not be null: emitUntracked takes none");
    }
    text("the message id", text);
    int bytes = text.getBytes(StandardCharsets.UTF_8).length;
    if (bytes > MAX_MESSAGE_ID_BYTES) {
      throw new AckerException.Usage(
          "the message id must be at most "
              + MAX_MESSAGE_ID_BYTES
              + " bytes of UTF-8, not "
              + bytes);
    }
  }

  static void traceparent(String text) {
    if (!TRACEPARENT.matcher(text).matches()) {
      throw new AckerException.Usage(
          "the traceparent must be that of W3C, of version 00, not " + shown(text));
    }
  }

  /** Refuses a timeout of a root beyond the contract. */
  static void timeout(String what, Duration timeout) {
    if (timeout.compareTo(MIN_TIMEOUT) < 0 || timeout.compareTo(MAX_TIMEOUT) > 0) {
      throw new AckerException.Usage(
          what + " must be from " + MIN_TIMEOUT + " to " + MAX_TIMEOUT + ", not " + timeout);
    }
  }

  /** Quotes text, cut to what fits into a message. */
  static String shown(String text) {
    if (text == null) {
      return "null";
    }
    StringBuilder quoted = new StringBuilder("\"");
    text.codePoints()
        .limit(MOST_SHOWN)
        .forEach(
            point -> {
              if (Character.isISOControl(point)) {
                quoted.append(String.format("\\u%04x", point));
              } else {
                quoted.appendCodePoint(point);
              }
            });
    return quoted + (text.codePointCount(0, text.length()) > MOST_SHOWN ? "…\"" : "\"");
  }
}
