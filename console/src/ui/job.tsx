// A job: what it does, how far it is, how it ended.
import { useEffect, useState } from 'react';
import { useGet } from '../api/resource';
import type { Job } from '../api/types';
import { Link } from '../state/router';
import { Badge, Failure, Loading, Progress, Words, type Tone } from './basics';
import { bytes, plural, whole } from './format';

const KINDS: Record<Job['kind'], string> = {
  check: 'Check',
  scrub: 'Scrub',
  rebuild: 'Rebuild',
  import: 'Import',
  follow: 'Standby',
  verify: 'Proof',
};

/// As in `Scrub of pool main`.
export const titleOf = (job: Job): string => `${KINDS[job.kind]} of ${job.object.kind} ${job.object.name}`;

/// Why a job that runs may not be ended; null: it may.
export function cannotEnd(job: Job): string | null {
  return job.is_cancellable ? null : `A ${KINDS[job.kind].toLowerCase()} cannot be ended before its time.`;
}

export function JobProgress({ job }: { job: Job }) {
  const now = job.progress;
  const isCounted = now && now.total_count > 0;
  const amount = (value: number) => (now?.unit === 'bytes' ? bytes(value) : whole(value));
  const unit = now?.unit === 'bytes' ? '' : ' segments';
  return (
    <Progress
      label={now ? `${titleOf(job)}: ${now.stage}` : titleOf(job)}
      share={isCounted ? now.done_count / now.total_count : undefined}
      text={isCounted ? `${amount(now.done_count)} of ${amount(now.total_count)}${unit}` : 'how far is not known'}
    />
  );
}

const damage = (errors: string[]): string =>
  errors.length === 0 ? 'no damage' : `${plural(errors.length, 'damaged place')}: ${errors[0]}`;

/// What a job found or made.
function foundBy({ result }: Job): string {
  const { check, scrub, proof, database } = result ?? {};
  if (check) return damage(check.errors);
  if (scrub) return `${whole(scrub.data_block_count + scrub.parity_block_count)} blocks set right, ${damage(scrub.check.errors)}`;
  if (proof) return proof.findings.length === 0 ? `${proof.snapshot} is proven` : `${proof.snapshot} is NOT proven: ${proof.findings[0]}`;
  if (database) return `database ${database.name} is there`;
  return 'it lacks nothing any more';
}

function isBad({ state, result }: Job): boolean {
  const errors = [result?.check?.errors, result?.scrub?.check.errors, result?.proof?.findings];
  return state === 'failed' || errors.some((found) => found && found.length > 0);
}

export function JobEnd({ job }: { job: Job }) {
  const { state, problem } = job;
  const tone: Tone = isBad(job) ? 'bad' : state === 'done' ? 'good' : 'plain';
  return (
    <>
      <Badge tone={tone}>{state}</Badge> <Words>{state === 'done' ? foundBy(job) : (problem?.detail ?? '')}</Words>
      {state === 'failed' && problem && (
        <div className="todo">
          What to do: <Words>{problem.remedy.command}</Words>
        </div>
      )}
    </>
  );
}

/// One that was begun here, followed to its end.
export function FollowedJob({ id }: { id: string }) {
  const [isOver, setOver] = useState(false);
  const { data: job, error } = useGet('/v1/jobs/{job}', { path: { job: id } }, isOver ? 3600 : 2);
  const state = job?.state;
  useEffect(() => setOver(state !== undefined && state !== 'running'), [state]);
  if (!job) return error ? <Failure error={error} /> : <Loading what="Asking how far it is" />;
  return (
    <>
      {state === 'running' ? <JobProgress job={job} /> : <JobEnd job={job} />} <Link to="/jobs">All jobs</Link>
    </>
  );
}
