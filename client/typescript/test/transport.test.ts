import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { test } from "node:test";
import { Acker, ClientClosedError, RetriesExhaustedError, UsageError } from "../src/index.js";

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

for (const requestTimeout of [Number.POSITIVE_INFINITY, 2 ** 40]) {
  test(`a request may take ${requestTimeout} ms`, async () => {
    const late: RequestListener = (_request, response) => {
      setTimeout(() => response.writeHead(404).end('{"code": "unknown_topology"}'), 100);
    };
    await withServer(late, async (url) => {
      const acker = new Acker(url, { logger, requestTimeout, retryTimeout: 0 });
      await assert.rejects(acker.sharedSpout("orders").emit("42"), { code: "unknown_topology" });
    });
  });
}

for (const ending of ["\n", "\r\nX-Other: 1", "\u0000", "\u20ac"]) {
  test(`an API key with ${JSON.stringify(ending)} is refused by the constructor, and not shown`, () => {
    assert.throws(
      () => new Acker("http://127.0.0.1:1", { apiKey: `hidden${ending}` }),
      (error) => error instanceof UsageError && /apiKey/.test(error.message) && !/hidden/.test(error.message),
    );
  });
}

/** Listens, and takes no connection: when two wait, packets of others are dropped. */
const DEAF = `const server = require("node:net").createServer().listen({ host: "127.0.0.1", port: 0, backlog: 1 }, () => {
  require("node:fs").writeSync(1, String(server.address().port));
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});`;

test("where packets are dropped the first call fails after startupTimeout, and says that no acker answers", async () => {
  const deaf = spawn("node", ["-e", DEAF], { stdio: ["ignore", "pipe", "inherit"] });
  const [written] = await once(deaf.stdout, "data");
  const port = Number(String(written));
  const waiting = [1, 2, 3].map(() => connect(port, "127.0.0.1").on("error", () => undefined));
  try {
    await Promise.all(waiting.slice(0, 2).map((socket) => once(socket, "connect")));
    const options = { logger, requestTimeout: 200, startupTimeout: 300, retryTimeout: 2_000 };
    await assert.rejects(new Acker(`http://127.0.0.1:${port}`, options).sharedSpout("orders").emit("42"), {
      code: "retries_exhausted",
      message: /no acker answers at http.*Start one/,
    });
  } finally {
    for (const socket of waiting) {
      socket.destroy();
    }
    deaf.kill("SIGKILL");
  }
});
