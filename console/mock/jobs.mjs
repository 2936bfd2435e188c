// Long work of the mock: what is under way in the world is a job, and stays in the list when it has ended.
import { busy, found, missing } from './refusal.mjs';

export const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

const CHECKED = { chunk_count: 1, page_count: 1, live_bytes: 1, duration_millis: 5, errors: [] };
const COUNTS = { data_block_count: 0, parity_block_count: 2, mended_block_count: 2, stripe_count: 9, unproven_stripe_count: 0 };
const bytes = ({ done_bytes, total_bytes }, stage) => ({ stage, unit: 'bytes', done_count: done_bytes, total_count: total_bytes });

function progressOf(world, { kind, object }) {
  const pool = world.pools.find(({ name }) => name === object.name.split('/')[0]);
  if (kind === 'scrub' && pool?.scrub) {
    const { done_segment_count: done_count, total_segment_count: total_count } = pool.scrub;
    return { stage: 'compares segments with their parity', unit: 'segments', done_count, total_count };
  }
  if (kind === 'rebuild' && pool?.rebuild) return bytes(pool.rebuild, 'writes what the drive lacks');
  const { progress } = world.databases.find(({ name }) => name === object.name) ?? {};
  return kind === 'import' && progress ? bytes(progress, progress.stage) : undefined;
}

function view(world, job) {
  const progress = job.state === 'running' ? progressOf(world, job) : undefined;
  return progress ? { ...job, progress } : { ...job };
}

const jobOf = (world, id) => {
  const job = world.jobs.find((one) => one.id === id);
  if (!job) throw missing('job', id);
  return job;
};

function begin(world, kind, object) {
  const id = `5f0c2a91-${world.jobs.length + 1}`;
  const job = { id, kind, object, state: 'running', started_unix_millis: Date.now(), is_cancellable: kind !== 'check' };
  world.jobs.push(job);
  return job;
}

/// The first end counts.
function end(job, part) {
  if (job.state === 'running') Object.assign(job, { ended_unix_millis: Date.now(), is_cancellable: false, ...part });
}

function cancelled(job) {
  const { body } = busy(`the ${job.kind} was ended`, 'start it again');
  end(job, { state: 'cancelled', problem: body });
}

/// What long work is answered with: the job, or its end.
async function answer(world, job, query, work) {
  const over = work();
  if (query.wait === 'false') return { status: 202, body: view(world, job) };
  return { status: 200, body: await over };
}

function check(world, { path, query }) {
  const pool = found(world.pools, path.pool, 'pool');
  const job = begin(world, 'check', { kind: 'pool', name: pool.name });
  return answer(world, job, query, async () => {
    await pause(5 * world.slowMillis);
    const report = { pool: pool.name, ...CHECKED };
    end(job, { state: 'done', result: { check: report } });
    return report;
  });
}

function scrub(world, { path, query }) {
  const pool = found(world.pools, path.pool, 'pool');
  const job = begin(world, 'scrub', { kind: 'pool', name: pool.name });
  pool.scrub = { done_segment_count: 0, total_segment_count: 4000, elapsed_millis: 0, is_paused: false };
  return answer(world, job, query, async () => {
    for (let tick = 0; pool.scrub && tick < 4000; tick += 1) await pause(25);
    const report = { check: { pool: pool.name, ...CHECKED }, duration_millis: 9, ...COUNTS };
    end(job, { state: 'done', result: { scrub: report } });
    return report;
  });
}

/// Somebody ends it.
export function stopScrub(world, pool) {
  delete pool.scrub;
  world.jobs.filter(({ kind, object }) => kind === 'scrub' && object.name === pool.name).forEach(cancelled);
}

function endJob(world, { path }) {
  const job = jobOf(world, path.job);
  if (job.state !== 'running') {
    world.jobs.splice(world.jobs.indexOf(job), 1);
  } else if (!job.is_cancellable) {
    throw busy(`job ${job.id} cannot be ended before its time`, 'wait for its end');
  } else if (job.kind === 'scrub') {
    stopScrub(world, found(world.pools, job.object.name, 'pool'));
  } else {
    world.databases = world.databases.filter(({ name }) => name !== job.object.name);
    cancelled(job);
  }
  return { status: 200, body: view(world, job) };
}

export const JOBS = {
  'GET /v1/jobs': (world) => ({ status: 200, body: world.jobs.map((job) => view(world, job)) }),
  'GET /v1/jobs/{job}': (world, { path }) => ({ status: 200, body: view(world, jobOf(world, path.job)) }),
  'DELETE /v1/jobs/{job}': endJob,
  'POST /v1/pools/{pool}/check': check,
  'POST /v1/pools/{pool}/scrub': scrub,
};

/// What was begun before anybody looked.
export function jobs({ staging }) {
  const started = (minutes) => Date.now() - minutes * 60_000;
  const job = (number, kind, object, minutes, part) => ({
    id: `5f0c2a91-${number}`,
    kind,
    object,
    state: 'done',
    started_unix_millis: started(minutes),
    is_cancellable: false,
    ...part,
  });
  const over = (minutes, part) => ({ ended_unix_millis: started(minutes), ...part });
  const { body: problem } = busy('database `late` is not brought in: its source ended the connection', 'import it again');
  const database = (name) => ({ kind: 'database', name });
  return [
    job(1, 'check', { kind: 'pool', name: 'lab' }, 300, over(299, { result: { check: { pool: 'lab', ...CHECKED } } })),
    job(2, 'verify', database('staging'), 95, over(94, { result: { proof: staging.proofs[0] } })),
    job(3, 'rebuild', { kind: 'drive', name: 'main/3' }, 90, { state: 'running' }),
    job(4, 'import', database('late'), 40, over(31, { state: 'failed', problem })),
    job(5, 'import', database('archive'), 10, { state: 'running', is_cancellable: true }),
  ];
}
