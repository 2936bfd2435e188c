// Long work that is begun here and goes on without this page.
import { addressOf, request } from './client';
import type { Job } from './types';

type Long = '/v1/pools/{pool}/check' | '/v1/pools/{pool}/scrub';

/// Begins work on a pool. Who does not wait for its end is answered with the job.
export async function begin(path: Long, pool: string): Promise<Job> {
  const address = addressOf(path, { path: { pool }, query: { wait: false } });
  return JSON.parse(await request('POST', address)) as Job;
}
