// What can be done with schedules.
import { useState } from 'react';
import { api } from '../api/client';
import { useGet } from '../api/resource';
import type { Schedule } from '../api/types';
import { openDialog } from '../state/dialog';
import { runTask } from '../state/tasks';
import { FormDialog } from '../ui/dialog';
import { Choice, TextInput } from '../ui/fields';
import type { Action } from '../ui/menu';
import { DeleteSchedule } from './snapshot';

const EVERY: { id: string; label: string }[] = [
  { id: '1', label: 'Every second' },
  { id: '60', label: 'Every minute' },
  { id: '900', label: 'Every 15 minutes' },
  { id: '3600', label: 'Every hour' },
  { id: '86400', label: 'Every day' },
  { id: '604800', label: 'Every week' },
];

export function CreateSchedule() {
  const databases = useGet('/v1/databases').data ?? [];
  const volumes = useGet('/v1/volumes').data ?? [];
  const [name, setName] = useState('');
  const [of, setOf] = useState('');
  const [every, setEvery] = useState('900');
  const [keep, setKeep] = useState('hourly=24,daily=7,weekly=4');
  const [prove, setProve] = useState('');
  const owned = new Set(databases.flatMap((one) => one.volumes.map(({ volume }) => volume)));
  const options = [
    ...databases.map((one) => ({ id: `database ${one.name}`, label: one.name, note: 'database' })),
    ...volumes
      .filter((one) => !owned.has(one.name))
      .slice(0, 500)
      .map((one) => ({ id: `volume ${one.name}`, label: one.name, note: 'volume' })),
  ];
  const isDatabase = of.startsWith('database ');
  const object = of.slice(of.indexOf(' ') + 1);
  const isBadProve = prove !== '' && !(Number(prove) >= 1);
  const run = async () => {
    await api.post('/v1/schedules', {
      body: {
        name,
        every_seconds: Number(every),
        keep,
        databases: isDatabase ? [object] : [],
        volumes: isDatabase ? [] : [object],
        prove_every_count: isDatabase && prove ? Number(prove) : null,
      },
    });
  };
  return (
    <FormDialog
      title="Create a schedule"
      task={`create schedule ${name}`}
      submit="Create"
      isIncomplete={name === '' || of === '' || keep === '' || isBadProve}
      run={run}
    >
      <TextInput label="Name" value={name} onChange={setName} autoFocus hint="Its snapshots are called so, with the time." />
      <Choice label="Of" value={of} onChange={setOf} options={options} />
      <Choice label="How often" value={every} onChange={setEvery} options={EVERY} hint="By the clock, in UTC." />
      <TextInput
        label="Which snapshots stay"
        value={keep}
        onChange={setKeep}
        hint="The newest of each of so many seconds, minutes, hourly, daily, weekly, monthly, and so many of the last."
      />
      {isDatabase && (
        <TextInput
          label="Prove one of so many"
          value={prove}
          onChange={setProve}
          inputMode="numeric"
          error={isBadProve ? 'A number from 1 on.' : null}
          hint="Empty: none. 96 of one each 15 minutes is one a day."
        />
      )}
    </FormDialog>
  );
}

function run(title: string, name: string, verb: 'pause' | 'resume' | 'run'): void {
  runTask(`${title} schedule ${name}`, async () => {
    const path = { schedule: name };
    if (verb === 'pause') await api.post('/v1/schedules/{schedule}/pause', { path });
    else if (verb === 'resume') await api.post('/v1/schedules/{schedule}/resume', { path });
    else return `Snapshot ${(await api.post('/v1/schedules/{schedule}/run', { path })).name} is taken.`;
    return undefined;
  });
}

export function scheduleActions({ name, state, snapshot_count: count }: Schedule): Action[] {
  return [
    { id: 'run', label: 'Take a snapshot now', needs: 'schedule_run', onAction: () => run('run', name, 'run') },
    state === 'paused'
      ? { id: 'resume', label: 'Resume', needs: 'schedule_resume', onAction: () => run('resume', name, 'resume') }
      : { id: 'pause', label: 'Pause', needs: 'schedule_pause', onAction: () => run('pause', name, 'pause') },
    {
      id: 'delete',
      label: 'Delete…',
      isDanger: true,
      needs: 'schedule_delete',
      onAction: () => openDialog(<DeleteSchedule name={name} count={count} />),
    },
  ];
}
