import assert from "node:assert/strict";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import express from "express";
import fastify from "fastify";
import { Webhook } from "standardwebhooks";
import { expressBolt, expressErrors, fastifyBolt, nodeBolt, tupleOf } from "../src/http.js";
import { type Acker, current, inject, ServiceError } from "../src/index.js";
import { MemoryAcker } from "../src/testing.js";
import { fastifyWebhook, verifyWebhook, webhookReceiver } from "../src/webhook.js";

const SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BATCH = JSON.stringify({
  type: "completion.batch",
  data: {
    completions: ["1", "2"].map((id) => ({
      id: `c${id}`,
      root_id: "00000000000000a1",
      outcome: id === "1" ? "acked" : "failed",
      message_id: id,
      reason: null,
      component: null,
      complete_latency_ms: 5,
      at_ms: 1_790_000_000_000,
    })),
  },
});

const servers: { close: () => unknown }[] = [];
after(() => Promise.all(servers.map((server) => server.close())));

function listen(server: Server): Promise<string> {
  servers.push({ close: () => server.close(() => undefined).closeAllConnections() });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  });
}

/** Ask a bolt with the anchors of a new root, and return the answer and how the root ended. */
async function ask(
  memory: MemoryAcker,
  acker: Acker,
  url: string,
): Promise<{ status: number; text: string; ended: unknown }> {
  const sent = await acker
    .sharedSpout("orders")
    .emit("42", (root) => ({ id: root.rootId, headers: root.headers("a") }));
  const answer = await fetch(url, {
    method: "POST",
    body: "{}",
    headers: { ...sent?.headers, "Content-Type": "application/json" },
  });
  const text = await answer.text();
  for (let left = 200; left > 0 && memory.outcome(sent?.id ?? "") === "pending"; left -= 1) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return { status: answer.status, text, ended: memory.outcome(sent?.id ?? "") };
}

/** Servers of each kind with the same three routes; `/bad` throws. */
const BOLTS: Record<string, (acker: Acker) => Promise<string>> = {
  "node:http": (acker) =>
    listen(
      createServer((request, response) =>
        nodeBolt(acker, { component: "billing" }, async () => {
          await Promise.resolve();
          assert.equal(current(), tupleOf(request));
          if (request.url === "/bad") {
            throw new Error("no such card");
          }
          response.end("done");
        })(request, response),
      ),
    ),
  express: (acker) => {
    const app = express();
    app.use(expressBolt(acker, { component: "billing" }));
    app.use(express.json());
    app.post("/good", async (request, response) => {
      await Promise.resolve();
      assert.equal(current(), tupleOf(request));
      response.send("done");
    });
    app.post("/bad", () => {
      throw new Error("no such card");
    });
    app.post("/refuse/:status", (request) => {
      throw Object.assign(new Error("refused"), { status: Number(request.params.status) });
    });
    app.use(expressErrors());
    return listen(createServer(app));
  },
  fastify: async (acker) => {
    const app = fastify();
    await app.register(fastifyBolt(acker, { component: "billing" }));
    app.post("/good", async (request) => {
      await Promise.resolve();
      assert.equal(current(), tupleOf(request.raw));
      return "done";
    });
    app.post("/bad", () => {
      throw new Error("no such card");
    });
    app.post<{ Params: { status: string } }>("/refuse/:status", (request) => {
      throw Object.assign(new Error("refused"), { statusCode: Number(request.params.status) });
    });
    servers.push({ close: () => app.close() });
    return await app.listen({ port: 0, host: "127.0.0.1" });
  },
};

for (const [name, serve] of Object.entries(BOLTS)) {
  test(`${name} acks what was answered, and fails what threw with the words of the error`, async () => {
    const memory = new MemoryAcker();
    const acker = memory.acker({ linger: 0, logger: { warn: () => undefined } });
    const url = await serve(acker);
    assert.deepEqual(await ask(memory, acker, `${url}/good`), { status: 200, text: "done", ended: "acked" });
    const bad = await ask(memory, acker, `${url}/bad`);
    assert.deepEqual([bad.status, bad.ended], [500, "failed"]);
    const reasons: (string | null)[] = [];
    for await (const { outcome, reason } of acker
      .sharedSpout("orders")
      .completions({ stop: () => reasons.length > 0 })) {
      if (outcome === "failed") {
        reasons.push(reason);
      }
    }
    assert.deepEqual(reasons, ["no such card"]);
  });

  test(`${name} answers 400 for a header that cannot be read, and does not call the application`, async () => {
    const url = await serve(new MemoryAcker().acker());
    const answer = await fetch(`${url}/bad`, { method: "POST", headers: { "Acker-Anchors": "nonsense" } });
    assert.equal(answer.status, 400);
    assert.match(await answer.text(), /nonsense/);
  });
}

for (const name of ["express", "fastify"]) {
  test(`${name} takes an error that it answers as a refusal for one: acked, or left open`, async () => {
    const memory = new MemoryAcker();
    const acker = memory.acker({ linger: 0, logger: { warn: () => undefined } });
    const url = await (BOLTS[name] as (acker: Acker) => Promise<string>)(acker);
    for (const [status, ended] of [
      [400, "acked"],
      [404, "acked"],
      [429, "pending"],
      [401, "pending"],
      [503, "failed"],
    ]) {
      const answer = await ask(memory, acker, `${url}/refuse/${status}`);
      assert.deepEqual([answer.status, answer.ended], [status, ended]);
    }
  });
}

test("a request whose caller has gone before the bolt runs fails its tuple where nothing is answered", async () => {
  const memory = new MemoryAcker();
  const acker = memory.acker({ linger: 0, logger: { warn: () => undefined } });
  const sent = await acker.sharedSpout("orders").emit("1", (root) => ({ id: root.rootId, headers: root.headers("a") }));
  const bolt = nodeBolt(acker, { component: "billing" }, () => undefined);
  const server = createServer();
  const ended = new Promise<void>((resolve, reject) => {
    server.on("request", (request, response) => {
      response.once("close", () => void bolt(request, response).then(resolve, reject));
      response.destroy();
    });
  });
  const url = await listen(server);
  await assert.rejects(fetch(url, { headers: sent?.headers ?? {} }));
  await ended;
  assert.equal(memory.outcome(sent?.id ?? ""), "failed");
});

test("a bolt within another leaves the tuple to the outer one", async () => {
  const memory = new MemoryAcker({ dedupes: false });
  const acker = memory.acker({ linger: 0 });
  const app = express();
  app.use(expressBolt(acker, { component: "outer" }), expressBolt(acker, { component: "inner" }));
  app.post("/", (request, response) => {
    response.send(tupleOf(request)?.component);
  });
  const url = await listen(createServer(app));
  assert.deepEqual(await ask(memory, acker, url), { status: 200, text: "outer", ended: "acked" });
  assert.equal(memory.requests.filter((request) => request.path.endsWith("/ack")).length, 1);
});

for (const [name, serve] of Object.entries(BOLTS)) {
  test(`${name} answers 500 where acks were lost before, and does not call the application`, async () => {
    const memory = new MemoryAcker();
    const acker = memory.acker({ logger: { warn: () => undefined } });
    const url = await serve(acker);
    const header = await acker.sharedSpout("orders").emit("1", (root) => root.headers("a"));
    await acker.process(header, "bolt", () => undefined);
    memory.faults.push(new ServiceError("forbidden", "not with this key"));
    while (acker.stats().lost === 0) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const anchors = { "Acker-Anchors": "00 default 00000000000000a1-00000000000000b1" };
    assert.equal((await fetch(`${url}/good`, { method: "POST", headers: anchors })).status, 500);
    assert.equal((await fetch(`${url}/good`, { method: "POST", headers: anchors })).status, 200);
  });
}

const RECEIVERS: Record<string, (seen: string[]) => Promise<string>> = {
  "node:http": (seen) => listen(createServer(webhookReceiver(handlersOf(seen)))),
  express: (seen) => {
    const app = express();
    app.post("/", express.raw({ type: "*/*" }), webhookReceiver(handlersOf(seen)));
    return listen(createServer(app));
  },
  fastify: async (seen) => {
    const app = fastify();
    await app.register(fastifyWebhook(handlersOf(seen)));
    servers.push({ close: () => app.close() });
    return await app.listen({ port: 0, host: "127.0.0.1" });
  },
};

function handlersOf(seen: string[]) {
  return {
    secrets: SECRET,
    onAck: (id: string) => seen.push(`acked ${id}`),
    onFail: (id: string) => seen.push(`failed ${id}`),
  };
}

for (const [name, serve] of Object.entries(RECEIVERS)) {
  test(`${name} receives what the library of Standard Webhooks has signed, and refuses all else`, async () => {
    const seen: string[] = [];
    const url = await serve(seen);
    const at = new Date();
    const headers = {
      "Content-Type": "application/json",
      "webhook-id": "msg_1",
      "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
      "webhook-signature": new Webhook(SECRET).sign("msg_1", at, BATCH),
    };
    const accepted = await fetch(url, { method: "POST", headers, body: BATCH });
    assert.deepEqual([accepted.status, await accepted.json()], [200, { retry: [] }]);
    assert.deepEqual(seen, ["acked 1", "failed 2"]);
    const forged = await fetch(url, { method: "POST", headers, body: BATCH.replace("acked", "failed") });
    assert.deepEqual([forged.status, seen.length], [401, 2]);
  });
}

for (const name of ["node:http", "fastify"]) {
  test(`${name} refuses by its head what nobody signed, and what is too long, before a body has come`, async () => {
    const url = await (RECEIVERS[name] as (seen: string[]) => Promise<string>)([]);
    const signed = {
      "webhook-id": "msg_1",
      "webhook-timestamp": String(Math.floor(Date.now() / 1_000)),
      "webhook-signature": new Webhook(SECRET).sign("msg_1", new Date(), ""),
    };
    assert.equal(await statusOfHead(url, { "Content-Length": 1_000 }), 401);
    assert.equal(await statusOfHead(url, { ...signed, "Content-Length": 8_388_609 }), 413);
  });
}

/** Return the status that answers a request whose body does not come. */
function statusOfHead(url: string, headers: Record<string, string | number>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method: "POST", headers: { "Content-Type": "application/json", ...headers } });
    asked.on("error", reject);
    asked.on("response", (response) => {
      resolve(response.statusCode);
      asked.destroy();
    });
    asked.flushHeaders();
  });
}

test("the verifier accepts what the library of Standard Webhooks does, and the other way round", () => {
  const at = new Date();
  const headers = {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
    "webhook-signature": new Webhook(SECRET).sign("msg_1", at, BATCH),
  };
  verifyWebhook(SECRET, headers, BATCH);
  verifyWebhook(SECRET, new Headers(headers), Buffer.from(BATCH));
  new Webhook(SECRET).verify(BATCH, headers);
  const forged = { ...headers, "webhook-id": "msg_2" };
  assert.throws(() => verifyWebhook(SECRET, forged, BATCH), { code: "unauthorized" });
  assert.throws(() => new Webhook(SECRET).verify(BATCH, forged));
});

test("headers that are injected are those of the current tuple, signed if there is a secret", async () => {
  const acker = new MemoryAcker().acker({ linger: 0 });
  const header = await acker.sharedSpout("orders").emit("42", (root) => root.headers("a"));
  await acker.process(header, "bolt", () => {
    const headers = inject({ Accept: "*/*" }, "charge", { secret: "32 random characters, from a file" });
    assert.deepEqual(Object.keys(headers), ["Accept", "Acker-Anchors", "Acker-Anchors-Signature"]);
    assert.deepEqual(inject({ ...headers }), headers);
  });
  assert.deepEqual(inject({}), {});
});
