package example.acker;

import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** The problems of the acker by their code; RFC 9457 has their form. */
final class Problems {
  private static final String BUSY = "It passes: try again later.";
  private static final Problem UNKNOWN = new Problem(500, "", false, "");
  private static final Map<String, Problem> KNOWN = new HashMap<>();
  private static final Set<String> MEMBERS =
      Set.of("code", "status", "detail", "title", "retryable", "type");

  static {
    know("problem", 500, "Something went wrong", false, "");
    know("invalid", 422, "The request is not valid", false, "");
    know(
        "unauthorized",
        401,
        "A key is needed",
        false,
        "Give the client the key of this acker: apiKey.");
    know(
        "forbidden",
        403,
        "The key does not allow this",
        false,
        "Use a key with this scope and topology.");
    know("forbidden_origin", 403, "The origin is not allowed", false, "");
    know("not_found", 404, "There is nothing here", false, "");
    know(
        "unknown_topology",
        404,
        "No such topology",
        false,
        "Create the topology with PUT, or correct its name.");
    know("unknown_root", 404, "No such root", false, "");
    know("unknown_spout", 404, "No such spout task", false, "");
    know("method_not_allowed", 405, "The method is not allowed here", false, "");
    know("conflict", 409, "The root is held by another emit", false, "");
    know("topology_busy", 409, "The topology is busy", true, BUSY);
    know("spout_busy", 409, "The spout task is busy", true, BUSY);
    know("ackers_fixed", 409, "The number of ackers is fixed", false, "");
    know(
        "mailbox_owned",
        409,
        "A webhook owns the mailbox",
        false,
        "Remove the webhook, or receive by it.");
    know("too_large", 413, "The request is too large", false, "");
    know("unsupported_media_type", 415, "The content type is not supported", false, "");
    know("too_many_spouts", 422, "The topology has too many spout tasks", false, "");
    know("max_spout_pending", 429, "Too many roots are pending", true, BUSY);
    know("mailbox_full", 429, "The mailbox is full", true, "Read and release completions.");
    know("too_many_streams", 429, "Too many streams are open", true, BUSY);
    know("store_full", 503, "The store is full", true, BUSY);
    know("overloaded", 503, "The service is overloaded", true, BUSY);
    know("store_unavailable", 503, "The store is not available", true, BUSY);
  }

  private Problems() {}

  private record Problem(int status, String title, boolean retryable, String advice) {}

  private static void know(
      String code, int status, String title, boolean retryable, String advice) {
    KNOWN.put(code, new Problem(status, title, retryable, advice));
  }

  private static Problem of(String code) {
    return KNOWN.getOrDefault(code, UNKNOWN);
  }

  /** Returns the error of a code of the acker, with what is known of it. */
  static AckerException.Service error(String code, String message) {
    return error(code, of(code).status, message);
  }

  /** Likewise with a status of its own. */
  static AckerException.Service error(String code, int status, String message) {
    Problem known = of(code);
    return new AckerException.Service(
        code, status, known.retryable, known.advice, message, Map.of());
  }

  /**
   * Reads the error of a problem document; null for another body. One without retryable is not
   * retryable.
   */
  static AckerException.Service read(int status, byte[] body) {
    Map<String, Object> document;
    try {
      document = Json.readObject(body);
    } catch (IOException e) {
      return null;
    }
    if (status < 400 || document.get("code") == null) {
      return null;
    }
    String code = String.valueOf(document.get("code"));
    int own = document.get("status") instanceof Number given ? given.intValue() : status;
    Map<String, Object> extra = new HashMap<>(document);
    extra.keySet().removeAll(MEMBERS);
    extra.values().removeIf(each -> each == null);
    boolean retryable = Boolean.TRUE.equals(document.get("retryable"));
    return new AckerException.Service(
        code, own, retryable, of(code).advice, words(document, code), extra);
  }

  private static String words(Map<String, Object> document, String code) {
    for (Object member :
        new Object[] {document.get("detail"), document.get("title"), of(code).title}) {
      if (member instanceof String words && !words.isEmpty()) {
        return words;
      }
    }
    return "a problem without words";
  }

  /** Writes an error as the acker would answer it. */
  static byte[] document(AckerException.Service error) {
    Map<String, Object> document = new LinkedHashMap<>();
    document.put("type", "urn:acker:problem:" + error.code());
    document.put("title", of(error.code()).title);
    document.put("status", error.status());
    document.put("detail", error.getMessage());
    document.put("code", error.code());
    document.put("retryable", error.retryable());
    return Json.write(document);
  }
}
