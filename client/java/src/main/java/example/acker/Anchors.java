package example.acker;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/** The anchors of one message for one consumer; none if it is not tracked. */
public final class Anchors {
  /** The name of the header; a reader takes it in upper or lower case. */
  public static final String HEADER = "Acker-Anchors";

  static final String VERSION = "00";
  private static final int MOST = 64;
  private static final int LENGTH = 2 * Ids.DIGITS + 1;
  private static final String FORM =
      "must be a version, a topology and 1 to 64 anchors, of ids that are not zero";

  private final String topology;
  private final List<Anchor> anchors;

  Anchors(String topology, List<Anchor> anchors) {
    this.topology = topology;
    this.anchors = anchors;
  }

  /** Returns the topology of the message. */
  public String topology() {
    return topology;
  }

  /** Returns how many anchors there are. */
  public int size() {
    return anchors.size();
  }

  List<Anchor> list() {
    return anchors;
  }

  /**
   * Returns the value of the header Acker-Anchors; nothing without anchors: then send no header.
   */
  public Optional<String> header() {
    return anchors.isEmpty()
        ? Optional.empty()
        : Optional.of(VERSION + " " + topology + " " + listed(anchors));
  }

  /**
   * Returns the header as a map of one entry, or an empty one without anchors: send it along with
   * the message.
   */
  public Map<String, String> headers() {
    return header().map(value -> Map.of(HEADER, value)).orElse(Map.of());
  }

  /**
   * Sets the header on a message, in the place of the anchors that it may have; without anchors it
   * removes them.
   */
  public void setOn(Carrier headers) {
    headers.delete(HEADER);
    header().ifPresent(value -> headers.set(HEADER, value));
  }

  @Override
  public String toString() {
    return header().orElse("without anchors");
  }

  static String listed(List<Anchor> anchors) {
    return anchors.stream().map(Anchor::toString).collect(Collectors.joining(","));
  }

  /** Refuses more anchors than one message can carry. */
  static void checkCount(int count) {
    if (count > MOST) {
      throw new AckerException.TooManyAnchors(
          "a message carries at most " + MOST + " anchors, this one would carry " + count);
    }
  }

  /**
   * Reads the anchors of a message of any topology; nothing without the header.
   *
   * @throws AckerException.InvalidHeader for a header that cannot be read
   */
  public static Optional<Anchors> extract(Carrier headers) {
    return headerValue(headers, HEADER).map(Anchors::parse);
  }

  /** Reads the anchors of a message of this topology; none without the header. */
  static List<Anchor> read(Carrier headers, String topology) {
    Optional<Anchors> found = extract(headers);
    if (found.isEmpty()) {
      return List.of();
    }
    if (!found.get().topology.equals(topology)) {
      throw new AckerException.InvalidHeader(
          HEADER
              + " is of topology \""
              + found.get().topology
              + "\", this client works for \""
              + topology
              + "\"");
    }
    return found.get().anchors;
  }

  /** Returns the value of a header that a message carries once; nothing without it. */
  static Optional<String> headerValue(Carrier headers, String name) {
    List<String> values = headerValues(headers, name);
    if (values.size() > 1) {
      throw new AckerException.InvalidHeader(
          name + " is given " + values.size() + " times; a message carries it once");
    }
    return values.stream().findFirst();
  }

  /** Returns the values of a header, whose name is given in upper or lower case. */
  static List<String> headerValues(Carrier headers, String name) {
    List<String> values = new ArrayList<>(1);
    headers.forEach(
        (each, value) -> {
          if (name.equalsIgnoreCase(each)) {
            values.add(value);
          }
        });
    return values;
  }

  private static Anchors parse(String value) {
    String[] words = value.strip().split(" ", -1);
    if (!words[0].equals(VERSION)) {
      throw unreadable(value, "must begin with version " + VERSION);
    }
    if (words.length != 3 || !Checks.isName(words[1])) {
      throw unreadable(value, "must be a version, a topology and 1 to 64 anchors");
    }
    return new Anchors(words[1], split(value, words[2]));
  }

  private static List<Anchor> split(String value, String listed) {
    int count = (listed.length() + 1) / (LENGTH + 1);
    if (count < 1 || count > MOST || listed.length() != count * (LENGTH + 1) - 1) {
      throw unreadable(value, FORM);
    }
    List<Anchor> anchors = new ArrayList<>(count);
    for (int at = 0; at < listed.length(); at += LENGTH + 1) {
      int end = at + LENGTH;
      long root = Ids.parse(listed, at);
      long edge = Ids.parse(listed, at + Ids.DIGITS + 1);
      boolean isSeparated =
          listed.charAt(at + Ids.DIGITS) == '-'
              && (end == listed.length() || listed.charAt(end) == ',');
      if (root == 0 || edge == 0 || !isSeparated) {
        throw unreadable(value, FORM);
      }
      anchors.add(new Anchor(root, edge));
    }
    if (count > 1 && new HashSet<>(anchors).size() < count) {
      throw unreadable(value, "must not name an anchor twice");
    }
    return List.copyOf(anchors);
  }

  private static AckerException unreadable(String value, String why) {
    return new AckerException.InvalidHeader(HEADER + " " + why + ": " + Checks.shown(value));
  }
}
