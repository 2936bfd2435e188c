// A job is ended before its time.
import { api } from '../api/client';
import type { Job } from '../api/types';
import { FormDialog } from '../ui/dialog';

/// What is lost with a scrub that is ended.
export const scrubLoss = (pool: string): string =>
  `What the scrub has set right stays so. What it has not come to in pool ${pool} is not checked until the next one.`;

export function EndJob({ job }: { job: Job }) {
  const { kind, object } = job;
  const what = kind === 'follow' ? 'making of standby' : `${kind} of ${object.kind}`;
  const run = async () => {
    await api.delete('/v1/jobs/{job}', { path: { job: job.id } });
  };
  return (
    <FormDialog
      title={`End the ${what} ${object.name}`}
      task={`end the ${what} ${object.name}`}
      submit="End it"
      isDanger
      typed={kind === 'scrub' ? undefined : object.name}
      run={run}
    >
      <p className="loss">
        {kind === 'scrub'
          ? scrubLoss(object.name)
          : `Database ${object.name} is deleted with all that was copied into it so far. Where it comes from stays as it is.`}
      </p>
    </FormDialog>
  );
}
