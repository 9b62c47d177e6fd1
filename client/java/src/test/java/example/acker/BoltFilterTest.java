package example.acker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import org.apache.catalina.Context;
import org.apache.catalina.core.StandardContext;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Servlets of Tomcat as bolts. */
class BoltFilterTest {
  private final InMemoryAcker memory = new InMemoryAcker();
  private final Acker acker = memory.builder().linger(Duration.ZERO).build();
  private final Tomcat tomcat = new Tomcat();

  @TempDir private Path folder;

  @AfterEach
  void stop() throws Exception {
    tomcat.stop();
    tomcat.destroy();
  }

  /** What a servlet does. */
  private interface Service {
    void answer(HttpServletRequest asked, HttpServletResponse answer)
        throws IOException, ServletException;
  }

  @SuppressWarnings("serial") // none is written anywhere
  private static final class Servlet extends HttpServlet {
    private final transient Service service;

    Servlet(Service service) {
      this.service = service;
    }

    @Override
    protected void service(HttpServletRequest asked, HttpServletResponse answer)
        throws IOException, ServletException {
      service.answer(asked, answer);
    }
  }

  /** Asks a servlet behind the filter, and returns the status. */
  private int ask(String header, ReceiveOptions options, Service service) throws Exception {
    tomcat.setBaseDir(folder.toString());
    tomcat.setPort(0);
    tomcat.setSilent(true);
    Context context = tomcat.addContext("", new File(folder.toString()).getAbsolutePath());
    StandardContext quiet =
        (StandardContext) context; // which has no other threads or caches to clear
    quiet.setClearReferencesObjectStreamClassCaches(false);
    quiet.setClearReferencesThreadLocals(false);
    quiet.setClearReferencesRmiTargets(false);
    FilterDef filter = new FilterDef();
    filter.setFilterName("bolt");
    filter.setFilter(new BoltFilter(acker, options));
    filter.setAsyncSupported("true");
    context.addFilterDef(filter);
    FilterMap mapped = new FilterMap();
    mapped.setFilterName("bolt");
    mapped.addURLPattern("/*");
    context.addFilterMap(mapped);
    Tomcat.addServlet(context, "service", new Servlet(service)).setAsyncSupported(true);
    context.addServletMappingDecoded("/*", "service");
    tomcat.getConnector();
    tomcat.start();
    URI address = URI.create("http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/");
    HttpRequest asked = HttpRequest.newBuilder(address).header(Anchors.HEADER, header).build();
    return HttpClient.newHttpClient()
        .send(asked, HttpResponse.BodyHandlers.ofString())
        .statusCode();
  }

  private void endsAs(Outcome expected, int status, Service service) throws Exception {
    Memory.Emitted root = Memory.emit(acker, "42", "a");
    String header = root.children().get(0).get(Anchors.HEADER);
    assertEquals(status, ask(header, ReceiveOptions.of("bolt"), service));
    assertEquals(Optional.ofNullable(expected), memory.outcome(root.rootId()));
  }

  @Test
  void aRequestIsAckedWhenItWasAnswered() throws Exception {
    endsAs(
        Outcome.ACKED,
        200,
        (asked, answer) -> {
          assertEquals("bolt", Propagate.currentTuple().orElseThrow().component());
          answer.getWriter().print("charged");
        });
  }

  @Test
  void anAnswerOf503Fails() throws Exception {
    endsAs(Outcome.FAILED, 503, (asked, answer) -> answer.sendError(503));
  }

  @Test
  void anAnswerOf429LeavesItOpen() throws Exception {
    endsAs(null, 429, (asked, answer) -> answer.setStatus(429));
  }

  @Test
  void aServletThatThrowsFailsTheTree() throws Exception {
    endsAs(
        Outcome.FAILED,
        500,
        (asked, answer) -> {
          throw new ServletException("out of stock");
        });
  }

  @Test
  void theTupleOfAnAsynchronousRequestEndsWhenItsAnswerIsComplete() throws Exception {
    Memory.Emitted root = Memory.emit(acker, "42", "a");
    Service service =
        (asked, answer) -> {
          AsyncContext async = asked.startAsync();
          async.start(
              () -> {
                assertEquals(Optional.empty(), memory.outcome(root.rootId()));
                answer.setStatus(503);
                async.complete();
              });
        };
    assertEquals(
        503, ask(root.children().get(0).get(Anchors.HEADER), ReceiveOptions.of("bolt"), service));
    Memory.until(() -> memory.outcome(root.rootId()).isPresent());
    assertEquals(Optional.of(Outcome.FAILED), memory.outcome(root.rootId()));
  }

  @Test
  void aHeaderThatCannotBeReadIsAnswered400() throws Exception {
    assertEquals(
        400, ask("nonsense", ReceiveOptions.of("bolt"), (asked, answer) -> answer.setStatus(200)));
  }

  @Test
  void oneWithoutProofIsAnswered403() throws Exception {
    ReceiveOptions proved =
        ReceiveOptions.of("bolt").withProof("32 random characters, from a file");
    String header = Memory.emit(acker, "42", "a").children().get(0).get(Anchors.HEADER);
    assertEquals(403, ask(header, proved, (asked, answer) -> answer.setStatus(200)));
  }
}
