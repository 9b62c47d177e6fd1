package example.acker;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Webhooks of a spout task, signed as Standard Webhooks has it; {@link WebhookHandler} receives
 * them.
 */
public final class Webhooks {
  private static final String PREFIX = "whsec_";
  private static final int MIN_SECRET = 24;
  private static final int MAX_SECRET = 64;
  private static final long TOLERANCE_S = 300;
  private static final Pattern SECONDS = Pattern.compile("[0-9]{1,12}");
  private static final Pattern BASE64 =
      Pattern.compile(
          "(?:[A-Za-z0-9+/]{4})+|(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/]=)");

  /** Signatures of which one at least is the base64 of 32 bytes. */
  private static final Pattern SIGNATURES =
      Pattern.compile("(?:.* )?v1,[A-Za-z0-9+/]{43}=(?: .*)?");

  private Webhooks() {}

  /**
   * Accepts the body of a request that was signed with one of the secrets within five minutes.
   *
   * <p>A secret is "whsec_" and the padded base64 of 24 to 64 bytes. Signatures are compared in
   * constant time, with each; those of other versions are ignored.
   *
   * @throws AckerException.Service with the code unauthorized where none fits
   * @throws AckerException.Usage for what is no secret
   */
  public static void verify(List<String> secrets, Carrier headers, byte[] body) {
    verify(keys(secrets), headers, body, Instant.now());
  }

  /**
   * Reads the completions in the body of a webhook.
   *
   * @throws AckerException.Service with status 400 for another body
   */
  public static List<Completion> parse(byte[] body) {
    try {
      Map<String, Object> found = Json.readObject(body);
      boolean isKnown =
          "completion.batch".equals(found.get("type"))
              || "completion.test".equals(found.get("type"));
      if (!isKnown || !(found.get("data") instanceof Map<?, ?> data)) {
        throw new IOException("it is no completion.batch");
      }
      return Completion.readList(data.get("completions"));
    } catch (IOException e) {
      throw Problems.error("invalid", 400, "the body holds no completions: " + e.getMessage());
    }
  }

  static void verify(List<byte[]> keys, Carrier headers, byte[] body, Instant now) {
    verifyHead(headers, now);
    String signed =
        header(headers, "webhook-id") + "." + header(headers, "webhook-timestamp") + ".";
    boolean fits = false;
    for (byte[] key : keys) {
      byte[] mac = Ids.hmac(key, signed.getBytes(StandardCharsets.UTF_8), body);
      byte[] expected =
          ("v1," + Base64.getEncoder().encodeToString(mac)).getBytes(StandardCharsets.UTF_8);
      for (String given : header(headers, "webhook-signature").split(" ")) {
        fits = MessageDigest.isEqual(expected, given.getBytes(StandardCharsets.UTF_8)) || fits;
      }
    }
    if (!fits) {
      throw noSignatureFits();
    }
  }

  /** Checks as much of a signature as can be checked without the body. */
  static void verifyHead(Carrier headers, Instant now) {
    String timestamp = header(headers, "webhook-timestamp");
    String signatures = header(headers, "webhook-signature");
    if (header(headers, "webhook-id").isEmpty() || timestamp.isEmpty() || signatures.isEmpty()) {
      throw Problems.error(
          "unauthorized", "webhook-id, webhook-timestamp and webhook-signature are needed");
    }
    if (!SECONDS.matcher(timestamp).matches()) {
      throw Problems.error("unauthorized", "webhook-timestamp must be in Unix seconds");
    }
    if (Math.abs(now.getEpochSecond() - Long.parseLong(timestamp)) > TOLERANCE_S) {
      throw Problems.error(
          "unauthorized", "webhook-timestamp is more than " + TOLERANCE_S + " s from now");
    }
    if (!SIGNATURES.matcher(signatures).matches()) {
      throw noSignatureFits();
    }
  }

  private static AckerException noSignatureFits() {
    return Problems.error("unauthorized", "webhook-signature holds none that fits");
  }

  /** Returns a header that is given several times as one, which fits nothing then. */
  private static String header(Carrier headers, String name) {
    return String.join(",", Anchors.headerValues(headers, name));
  }

  /** Returns the bytes of each secret; its error does not show them. */
  static List<byte[]> keys(List<String> secrets) {
    List<byte[]> keys = new ArrayList<>();
    for (String each : secrets) {
      byte[] key = key(each);
      if (key.length >= MIN_SECRET && key.length <= MAX_SECRET) {
        keys.add(key);
      }
    }
    if (keys.isEmpty() || keys.size() < secrets.size()) {
      throw new AckerException.Usage(
          "the secret of a webhook must be "
              + PREFIX
              + " and the base64 of "
              + MIN_SECRET
              + " to "
              + MAX_SECRET
              + " bytes, padded with = to a multiple of four characters");
    }
    return keys;
  }

  /**
   * Returns the bytes of a secret; none for what is no secret: also where its last bits are not
   * zero.
   */
  private static byte[] key(String secret) {
    String encoded = secret.startsWith(PREFIX) ? secret.substring(PREFIX.length()) : "";
    if (!BASE64.matcher(encoded).matches()) {
      return new byte[0];
    }
    byte[] key = Base64.getDecoder().decode(encoded);
    return Base64.getEncoder().encodeToString(key).equals(encoded) ? key : new byte[0];
  }
}
