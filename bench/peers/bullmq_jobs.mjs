// The tasks for BullMQ, its worker and what sends them: node bullmq_jobs.mjs worker|sender THREADS FOLDER [roots tasks ...]
// A sender says "ready" after its warm-up, begins on a line of its input, and prints one line of JSON.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import path from 'node:path';

const [, , role, threads, folder, ...numbers] = process.argv;
const require = createRequire(path.join(folder, 'node_modules', 'x.js'));
const { Queue, Worker, FlowProducer } = require('bullmq');
const { Redis } = require('ioredis');

const port = Number(process.env.BENCH_QUEUE_PORT);
const tracked = process.env.BENCH_VARIANT === 'flows';
const faults = Boolean(process.env.BENCH_FAULTS);
const DOUBLED = 100;   // with faults one task of so many is delivered twice
const WARM_ROOTS = 3;
const WORK_MS = 20;
const connection = { host: '127.0.0.1', port, db: 7, maxRetriesPerRequest: null };
const done = new Redis({ port, db: 15 });
const jobs = new Redis({ port, db: 7 });
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function leaf(job) {
  if (faults) {
    await sleep(WORK_MS);
    await done.sadd(`leaves:${job.data.root}`, job.data.number);
  } else {
    await done.incr('leaves');
  }
}

async function finished(job) {
  if (faults) {
    await done.rpush('reported', `${job.data.root}:${await done.scard(`leaves:${job.data.root}`)}`);
  }
  await done.incr('finished');
}

async function work() {
  const options = {
    connection, concurrency: Number(threads), removeOnComplete: { count: 0 }, ...(faults ? { lockDuration: 4000, stalledInterval: 4000 } : {}),
  };
  const workers = [new Worker('leaves', leaf, options), new Worker('roots', finished, options)];
  await Promise.all(workers.map((worker) => worker.waitUntilReady()));
  await done.incr('ready');
}

async function send() {
  const [roots, tasks, withinS, counted] = numbers.map(Number);
  const flow = new FlowProducer({ connection });
  const queue = new Queue('leaves', { connection });
  const opts = { removeOnComplete: true };
  const children = (root) => Array.from({ length: tasks }, (_, number) => (
    { name: 'leaf', queueName: 'leaves', data: { root, number }, opts }));
  const run = async (first, count) => {
    for (let root = first; root < first + count; root += 1) {
      if (tracked) await flow.add({ name: 'root', queueName: 'roots', data: { root }, opts, children: children(root) });
      else await queue.addBulk(children(root));
    }
    if (faults) {
      const waiting = await queue.getWaiting();
      for (let at = 0; at < waiting.length; at += DOUBLED) await jobs.lpush(queue.toKey('wait'), waiting[at].id);
    }
    const [name, each] = counted ? ['leaves', tasks] : ['finished', 1];
    const end = Date.now() + withinS * 1000;
    let seen = 0;
    while (seen < count * each && Date.now() < end) {
      await sleep(50);
      seen = Number(await done.get(name)) || 0;
    }
    return Math.floor(seen / each);
  };
  await run(-WARM_ROOTS, WARM_ROOTS);
  await done.del('leaves', 'finished', 'reported');
  console.log('ready');
  await new Promise((resolve) => { createInterface({ input: process.stdin }).once('line', resolve); });
  const cpu = process.cpuUsage();
  const began = Date.now();
  const seen = await run(0, roots);
  const spent = process.cpuUsage(cpu);
  console.log(JSON.stringify({ cpu_s: (spent.user + spent.system) / 1e6, wall_s: (Date.now() - began) / 1000, finished: seen }));
  process.exit(0);
}

await (role === 'worker' ? work() : send());
