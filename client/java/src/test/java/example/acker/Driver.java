package example.acker;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Plays the tests of tests/conformance: docs/clients.md has the commands, which come as lines of
 * JSON.
 */
final class Driver {
  /** Commands that may wait: each has a thread. */
  private static final Set<String> WAITING =
      Set.of(
          "close",
          "emit",
          "ack",
          "fail",
          "reset_timeout",
          "process",
          "flush",
          "completions",
          "work_off");

  private final PrintStream output;
  private final Map<String, Command> commands = new HashMap<>();
  private final ExecutorService threads =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
          });

  /** Answers a command. */
  interface Command {
    Object answer(Arguments given) throws Exception;
  }

  private Driver(PrintStream output) {
    this.output = output;
    DriverVectors.addTo(commands);
    new DriverScenarios().addTo(commands);
  }

  public static void main(String[] arguments) throws IOException {
    Driver driver = new Driver(new PrintStream(System.out, false, StandardCharsets.UTF_8));
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Arguments given = new Arguments(Json.readObject(line.getBytes(StandardCharsets.UTF_8)));
      if (WAITING.contains(given.text("do"))) {
        driver.threads.execute(() -> driver.answer(given));
      } else {
        driver.answer(given);
      }
    }
    System.exit(0);
  }

  private void answer(Arguments given) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("id", given.get("id"));
    Command command = commands.get(given.text("do"));
    try {
      if (command == null) {
        throw new IllegalArgumentException("there is no command " + given.text("do"));
      }
      answer.put("ok", command.answer(given));
    } catch (Exception | StackOverflowError e) {
      answer.put("error", described(e, "driver"));
    }
    String line = new String(Json.write(answer), StandardCharsets.UTF_8);
    synchronized (output) {
      output.print(line + "\n");
      output.flush();
    }
  }

  /** Writes an error; one that is not the client's has the other code. */
  static Map<String, Object> described(Throwable error, String other) {
    Map<String, Object> written = new LinkedHashMap<>();
    written.put("message", error instanceof AckerException ? error.getMessage() : error.toString());
    if (!(error instanceof AckerException found)) {
      written.put("code", other);
      written.put("retryable", other.equals("lost"));
      return written;
    }
    written.put("code", found.code());
    written.put("retryable", found.retryable());
    written.put("outcome_unknown", found.outcomeUnknown());
    if (found.status() != 0) {
      written.put("status", found.status());
    }
    if (found.operations() != 0) {
      written.put("operations", found.operations());
    }
    return written;
  }
}
