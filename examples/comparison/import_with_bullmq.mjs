// An import with a flow of BullMQ: node import_with_bullmq.mjs, beside node_modules with bullmq and ioredis.

import { FlowProducer, Worker } from 'bullmq';

const { hostname: host, port } = new URL(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const WRONG = [3, 7, 29];

async function load(job) {
  if (WRONG.includes(job.data.row)) throw new Error(`row ${job.data.row} has no price`);
}

async function report(job) {
  const failed = await job.getIgnoredChildrenFailures();
  console.log(`all rows have ended, ${Object.keys(failed).length} failed`);
}

const workers = [new Worker('rows', load, { connection }), new Worker('imports', report, { connection })];
const ended = new Promise((resolve) => { workers[1].once('completed', resolve); });
const flow = new FlowProducer({ connection });
const children = Array.from({ length: 30 }, (_, row) => (
  { name: 'load', queueName: 'rows', data: { row }, opts: { ignoreDependencyOnFailure: true } }));
await flow.add({ name: 'import', queueName: 'imports', children });
await ended;
await Promise.all([...workers, flow].map((one) => one.close()));
