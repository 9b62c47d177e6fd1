import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Acker, ClientClosedError, RetriesExhaustedError } from "../src/index.js";

const logger = { warn: () => undefined };

/** Run a function with the address of a server. */
async function withServer(listener: RequestListener, run: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("a reader that is aborted ends, whatever its poll waits for", async () => {
  const aborting = new AbortController();
  const neverAnswer = () => aborting.abort();
  await withServer(neverAnswer, async (url) => {
    const acker = new Acker(url, { logger });
    for await (const completion of acker.sharedSpout("orders").completions({ signal: aborting.signal })) {
      assert.fail(completion.id);
    }
    await acker.close();
  });
});

test("an address with a path leads there", async () => {
  const paths: unknown[] = [];
  const listener: RequestListener = (request, response) => {
    paths.push(request.url);
    response.writeHead(404).end('{"code": "unknown_topology"}');
  };
  await withServer(listener, async (url) => {
    const acker = new Acker(`${url}/acker/`, { logger });
    await assert.rejects(acker.sharedSpout("orders").emit("42"), { code: "unknown_topology" });
    assert.deepEqual(paths, ["/acker/v1/topologies/default"]);
  });
});

test("a request after the client was closed is refused, and nothing is sent", async () => {
  const acker = new Acker("http://127.0.0.1:1", { logger });
  await acker.close();
  await assert.rejects(acker.sharedSpout("orders").emit("42"), ClientClosedError);
});

test("a server that does not speak TLS is no acker, and the error has the cause", async () => {
  await withServer(
    (_request, response) => response.end(),
    async (url) => {
      const acker = new Acker(url.replace("http:", "https:"), { logger, startupTimeout: 100, retryTimeout: 100 });
      await assert.rejects(acker.sharedSpout("orders").emit("42"), (error: unknown) => {
        assert.ok(error instanceof RetriesExhaustedError);
        assert.ok(error.cause instanceof Error);
        return true;
      });
    },
  );
});
