// End a running import of BullMQ: node end_with_bullmq.mjs, beside node_modules with bullmq and ioredis.

import { FlowProducer, Worker } from 'bullmq';

const { hostname: host, port } = new URL(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const ROWS = 10_000;
let parent;
let imported = 0;

async function load() {
  await new Promise((resolve) => { setTimeout(resolve, 1); });
  imported += 1;
  if (imported === 100) await parent.removeUnprocessedChildren();
}

async function report() {
  console.log(`${imported} of ${ROWS} rows imported`);
}

const flow = new FlowProducer({ connection });
const children = Array.from({ length: ROWS }, (_, row) => ({ name: 'load', queueName: 'many-rows', data: { row } }));
({ job: parent } = await flow.add({ name: 'import', queueName: 'many-imports', children }));
const workers = [new Worker('many-rows', load, { connection }), new Worker('many-imports', report, { connection })];
await new Promise((resolve) => { workers[1].once('completed', resolve); });
await Promise.all([...workers, flow].map((one) => one.close()));
