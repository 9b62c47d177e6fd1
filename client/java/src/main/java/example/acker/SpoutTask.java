package example.acker;

import java.io.IOException;

/** One spout task of one client; own is a name that no other process has. */
final class SpoutTask {
  final Session session;
  final String name;
  private final boolean own;
  private final SharedCall registering = new SharedCall();
  private volatile boolean registered;
  private int free;
  private int uncommitted;

  SpoutTask(Session session, String name, boolean own) {
    this.session = session;
    this.name = name;
    this.own = own;
  }

  /** Lets a root be emitted: it waits for a free place where the topology has a cap. */
  void admit() {
    register();
    long sinceNs = System.nanoTime();
    Backoff pauses = new Backoff();
    while (!tryAcquire()) {
      if (Session.ageNs(sinceNs) >= session.settings.emitTimeout().toNanos()) {
        throw Problems.error(
            States.MAX_SPOUT_PENDING,
            name
                + " has as many pending roots as max_spout_pending allows, and none has ended in time");
      }
      Interrupts.sleep(pauses.nextNs(), "the emit waited for a free place", false);
    }
  }

  /** Ends the emit of a root: its init was sent, or it has none. */
  synchronized void release() {
    uncommitted = Math.max(0, uncommitted - 1);
  }

  /** Registers a name of its own as ephemeral, once: no process reads it after this one. */
  private void register() {
    session.topologyInfo();
    session.refreshTopology();
    if (own && !registered) {
      registering.run(
          () -> {
            if (!registered) {
              session.send(Request.makeEphemeral(session.topology(), name));
              registered = true;
            }
          });
    }
  }

  /** Lets the next emit register the name again: the acker does not know it. */
  void forget() {
    registered = false;
  }

  private boolean tryAcquire() {
    Integer most = session.topologyInfo().maxSpoutPending();
    if (most == null) {
      begin();
      return true;
    }
    if (take()) {
      return true;
    }
    int pending = countPending();
    synchronized (this) {
      free =
          most
              - pending
              - uncommitted; // roots that are being emitted are not pending yet and will be
    }
    return take();
  }

  /** Takes a free place, if one is known. */
  private synchronized boolean take() {
    if (free <= 0) {
      return false;
    }
    free--;
    uncommitted++;
    return true;
  }

  private synchronized void begin() {
    uncommitted++;
  }

  private int countPending() {
    try {
      Answer given = session.send(Request.readSpout(session.topology(), name));
      if (Json.readObject(given.body()).get("pending") instanceof Number pending) {
        return pending.intValue();
      }
    } catch (AckerException.Service e) {
      if (e.code().equals("unknown_spout")) {
        return 0;
      }
      throw e;
    } catch (IOException e) {
      // said below
    }
    throw new AckerException.InvalidResponse("the answer about a spout task holds no pending");
  }
}
