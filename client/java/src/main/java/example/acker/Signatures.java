package example.acker;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The proof that anchors come from somebody who has a secret, over HTTP.
 *
 * <p>Its header is "00 TIME MAC", a time in Unix seconds and the HMAC-SHA256 of "00 TIME ANCHORS"
 * in hex digits, keyed with the secret in UTF-8. See docs/public-bolts.md.
 */
public final class Signatures {
  /** The name of the header. */
  public static final String HEADER = "Acker-Anchors-Signature";

  private static final long TOLERANCE_S = 300;
  private static final int MIN_SECRET_CHARACTERS = 16;
  private static final Pattern FORM = Pattern.compile("00 (0|[1-9][0-9]{0,11}) ([0-9a-f]{64})");

  private Signatures() {}

  /**
   * Signs the anchors of an HTTP request with a secret, in the place of a signature that it has;
   * without anchors it removes that. The signature holds for five minutes.
   */
  public static void sign(Carrier headers, String secret) {
    checkSecrets(List.of(secret));
    Optional<String> anchors = Anchors.headerValue(headers, Anchors.HEADER);
    headers.delete(HEADER);
    anchors.ifPresent(value -> headers.set(HEADER, write(secret, value, Instant.now())));
  }

  /**
   * Checks that a holder of one of the secrets signed the anchors of an HTTP request within five
   * minutes. Headers without anchors are accepted.
   *
   * @throws AckerException.InvalidSignature where that is not so
   */
  public static void verify(Carrier headers, List<String> secrets) {
    checkSecrets(secrets);
    check(secrets, headers, Instant.now());
  }

  /** Refuses what is too short; its error does not show them. */
  static void checkSecrets(List<String> secrets) {
    boolean isGood = !secrets.isEmpty();
    for (String each : secrets) {
      isGood = isGood && each.codePointCount(0, each.length()) >= MIN_SECRET_CHARACTERS;
    }
    if (!isGood) {
      throw new AckerException.Usage(
          "a secret must have "
              + MIN_SECRET_CHARACTERS
              + " characters at least; draw it, do not invent it");
    }
  }

  static String write(String secret, String anchors, Instant now) {
    String seconds = Long.toString(now.getEpochSecond());
    String mac = HexFormat.of().formatHex(mac(secret, seconds, anchors));
    return Anchors.VERSION + " " + seconds + " " + mac;
  }

  /** Compares MACs in constant time, with each secret. */
  static void check(List<String> secrets, Carrier headers, Instant now) {
    Optional<String> anchors = Anchors.headerValue(headers, Anchors.HEADER);
    if (anchors.isEmpty()) {
      return;
    }
    List<String> signatures = Anchors.headerValues(headers, HEADER);
    if (signatures.size() != 1) {
      throw new AckerException.InvalidSignature(
          Anchors.HEADER + " needs one " + HEADER + " here, and has " + signatures.size());
    }
    Matcher parts = FORM.matcher(signatures.get(0).strip());
    if (!parts.matches()) {
      throw new AckerException.InvalidSignature(
          HEADER + " must be " + Anchors.VERSION + ", a time in Unix seconds and 64 hex digits");
    }
    byte[] theirs = HexFormat.of().parseHex(parts.group(2));
    boolean fits = false;
    for (String secret : secrets) {
      fits = MessageDigest.isEqual(mac(secret, parts.group(1), anchors.get()), theirs) || fits;
    }
    if (!fits) {
      throw new AckerException.InvalidSignature(
          HEADER + " was made with another secret, or for other anchors");
    }
    if (Math.abs(now.getEpochSecond() - Long.parseLong(parts.group(1))) > TOLERANCE_S) {
      throw new AckerException.InvalidSignature(
          HEADER + " is more than " + TOLERANCE_S + " s from now");
    }
  }

  private static byte[] mac(String secret, String seconds, String anchors) {
    String text = Anchors.VERSION + " " + seconds + " " + anchors.strip();
    return Ids.hmac(secret.getBytes(StandardCharsets.UTF_8), text.getBytes(StandardCharsets.UTF_8));
  }
}
