// What can be done with objectives of latency.
import { useState } from 'react';
import { api } from '../api/client';
import type { Objective } from '../api/types';
import { FormDialog } from '../ui/dialog';
import { Choice, TextInput } from '../ui/fields';

const REQUESTS: { id: Objective['requests']; label: string }[] = [
  { id: 'all', label: 'Reads and writes' },
  { id: 'reads', label: 'Reads' },
  { id: 'writes', label: 'Writes' },
];
const WEEK_SECONDS = 604_800;
const MICROS_MAX = 60_000_000;

interface Of {
  kind: Objective['kind'];
  name: string;
  objective?: Objective;
}

export function SetObjective({ kind, name, objective }: Of) {
  const [limit, setLimit] = useState(objective ? String(objective.p99_micros / 1000) : '2');
  const [share, setShare] = useState(String(objective?.for_percent ?? 99.9));
  const [requests, setRequests] = useState<Objective['requests']>(objective?.requests ?? 'all');
  const micros = Math.round(Number(limit) * 1000);
  const isBadLimit = !(micros >= 1 && micros <= MICROS_MAX);
  const isBadShare = !(Number(share) > 0 && Number(share) <= 100);
  const run = async () => {
    const over_seconds = objective?.over_seconds ?? WEEK_SECONDS;
    const body = { p99_micros: micros, for_percent: Number(share), requests, over_seconds };
    await api.put('/v1/objectives/{objective}', { path: { objective: name }, body });
  };
  return (
    <FormDialog
      title={`Objective of ${kind} ${name}`}
      task={`set objective of ${kind} ${name}`}
      submit="Set"
      isIncomplete={isBadLimit || isBadShare}
      run={run}
    >
      <TextInput
        label="99 of 100 requests below, in milliseconds"
        value={limit}
        onChange={setLimit}
        autoFocus
        error={isBadLimit ? 'A number from 0.001 to 60000.' : null}
      />
      <TextInput
        label="For how much of the time, in per cent"
        value={share}
        onChange={setShare}
        error={isBadShare ? 'A number above 0 and at most 100.' : null}
        hint="99.9 % of seven days leave ten minutes that may be missed."
      />
      <Choice label="Of" value={requests} onChange={setRequests} options={REQUESTS} />
    </FormDialog>
  );
}

export function DeleteObjective({ kind, name }: Of) {
  const run = async () => {
    await api.delete('/v1/objectives/{objective}', { path: { objective: name } });
  };
  return (
    <FormDialog
      title={`Delete the objective of ${kind} ${name}`}
      task={`delete objective of ${kind} ${name}`}
      submit="Delete"
      isDanger
      run={run}
    >
      <p>Nothing else changes: its latencies are kept and shown.</p>
    </FormDialog>
  );
}
