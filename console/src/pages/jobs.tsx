// Long work: what is under way, and what came of the rest.
import { useGet } from '../api/resource';
import type { Job } from '../api/types';
import { EndJob } from '../dialogs/job';
import { openDialog } from '../state/dialog';
import { denied, refused } from '../state/rights';
import { useStore } from '../state/store';
import { ActionButton, Empty, Failure, Loading, Page, Panel, Time } from '../ui/basics';
import { duration } from '../ui/format';
import { cannotEnd, JobEnd, JobProgress, titleOf } from '../ui/job';
import { DataTable, type Column } from '../ui/table';

export function Jobs() {
  const { data: jobs, error } = useGet('/v1/jobs', undefined, 2);
  useStore(refused);
  const running = (jobs ?? []).filter(({ state }) => state === 'running').reverse();
  const ended = (jobs ?? []).filter(({ state }) => state !== 'running');
  return (
    <Page title="Jobs" lead="Checks, scrubs, rebuilds, imports and proofs that somebody asked for. They go on without this page.">
      {error && <Failure error={error} />}
      {!jobs && !error && <Loading what="Asking for the jobs" />}
      {jobs?.length === 0 && (
        <Empty title="No long work yet" command="ashlar pool scrub main">
          Start a check or a scrub on the page of the drives. Scrubs by the clock are shown there, too.
        </Empty>
      )}
      {running.length > 0 && (
        <Panel title="Under way">
          {running.map((job) => (
            <Running key={job.id} job={job} />
          ))}
        </Panel>
      )}
      {ended.length > 0 && (
        <Panel title="Ended" note="Of the newest 256 since the array started.">
          <DataTable
            label="Jobs that ended"
            rows={ended}
            columns={COLUMNS}
            rowKey={(job) => job.id}
            order={{ id: 'ended', isDown: true }}
            atFirst={20}
          />
        </Panel>
      )}
    </Page>
  );
}

function Running({ job }: { job: Job }) {
  const isOfRoot = ['import', 'follow', 'verify'].includes(job.kind);
  const refusal = cannotEnd(job) ?? (isOfRoot ? denied('database_import') : null);
  return (
    <div className="with-actions">
      <JobProgress job={job} />
      <span className="note">
        begun <Time millis={job.started_unix_millis} />
      </span>
      <ActionButton needs="job_cancel" refusal={refusal} onPress={() => openDialog(<EndJob job={job} />)}>
        End…
      </ActionButton>
    </div>
  );
}

const endOf = (job: Job): number => job.ended_unix_millis ?? job.started_unix_millis;

const COLUMNS: Column<Job>[] = [
  {
    id: 'name',
    title: 'Job',
    width: '16rem',
    sort: titleOf,
    render: (job) => (
      <>
        <span className="strong">{titleOf(job)}</span>
        <span className="sub">{job.id}</span>
      </>
    ),
  },
  { id: 'end', title: 'What came of it', sort: (job) => job.state, render: (job) => <JobEnd job={job} /> },
  { id: 'ended', title: 'Ended', width: '8rem', hide: 1, sort: endOf, render: (job) => <Time millis={endOf(job)} /> },
  {
    id: 'took',
    title: 'Took',
    width: '6rem',
    hide: 1,
    isNumber: true,
    sort: (job) => endOf(job) - job.started_unix_millis,
    render: (job) => duration((endOf(job) - job.started_unix_millis) / 1000),
  },
];
