// What can be done with a database.
import { useState, type ReactNode } from 'react';
import { api } from '../api/client';
import { useGet } from '../api/resource';
import type { Database, DatabaseReady, Snapshot } from '../api/types';
import { openDialog } from '../state/dialog';
import { denied } from '../state/rights';
import { navigate, to } from '../state/router';
import { runTask } from '../state/tasks';
import { Copy, Notice } from '../ui/basics';
import { FormDialog } from '../ui/dialog';
import { Choice, sizeError, SizeInput, TextInput, Toggle } from '../ui/fields';
import { duration, millis, parseSize, plural, shortTime } from '../ui/format';
import type { Action } from '../ui/menu';
import { nameOfNow } from './snapshot';

/// How a database is ready: how long it took, its connection string, what is to be known of it.
function ready(done: DatabaseReady): ReactNode {
  return (
    <>
      Took {millis(done.took_millis)}, of that {millis(done.start_millis)} the server's start.{' '}
      {done.backup && <>What was there before is in snapshot {done.backup}. </>}
      Connection string <Copy text={() => Promise.resolve(done.url)} label="Copy the connection string" />
      {done.notes?.map((note) => <div key={note}>{note}</div>)}
    </>
  );
}

const isPort = (text: string): boolean => text === '' || (/^\d+$/.test(text) && +text > 0 && +text < 65536);
const portError = (text: string): string | null => (isPort(text) ? null : 'A port is 1 to 65535.');

export function CreateDatabase() {
  const pools = useGet('/v1/pools').data ?? [];
  const [name, setName] = useState('');
  const [size, setSize] = useState('64 GiB');
  const [log, setLog] = useState('');
  const [port, setPort] = useState('');
  const [pool, setPool] = useState('');
  const isBad = sizeError(size) !== null || !parseSize(size) || sizeError(log) !== null || !isPort(port);
  const run = async () => {
    const done = await api.post('/v1/databases', {
      body: {
        name,
        size_bytes: parseSize(size) ?? 0,
        log_size_bytes: log.trim() ? parseSize(log) : null,
        port: port ? Number(port) : null,
        pool: pool || pools[0]?.name,
      },
    });
    return ready(done);
  };
  return (
    <FormDialog
      title="Create a database"
      task={`create database ${name}`}
      submit="Create"
      isIncomplete={name === '' || isBad}
      refusal={pools.length === 0 ? 'There is no pool yet. `ashlar pool create` makes one.' : null}
      run={run}
    >
      <TextInput label="Name" value={name} onChange={setName} autoFocus />
      <SizeInput label="Size of the volume for data" value={size} onChange={setSize} hint="Thin." />
      <SizeInput label="Size of a volume for the log" value={log} onChange={setLog} hint="Empty: with the data." />
      {pools.length > 1 && (
        <Choice
          label="Pool"
          value={pool || pools[0].name}
          onChange={setPool}
          options={pools.map((one) => ({ id: one.name, label: one.name }))}
        />
      )}
      <Port value={port} onChange={setPort} />
      <p className="note">
        A PostgreSQL server of the newest version that is installed. <code>ashlar database import</code> brings in one
        that you have.
      </p>
    </FormDialog>
  );
}

function Port({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <TextInput
      label="Port"
      value={value}
      onChange={onChange}
      error={portError(value)}
      inputMode="numeric"
      hint="On 127.0.0.1; empty: the first free one."
    />
  );
}

/// A snapshot of a database, the newest first, or something else to begin with.
function SnapshotChoice(props: {
  label: string;
  snapshots: Snapshot[];
  value: string;
  onChange: (value: string) => void;
  other?: { id: string; label: string; note?: string }[];
}) {
  const newest = [...props.snapshots].sort((a, b) => b.created_unix_seconds - a.created_unix_seconds);
  const options = newest.slice(0, 500).map((snapshot) => ({
    id: snapshot.name,
    label: snapshot.name,
    note: shortTime(snapshot.created_unix_seconds * 1000),
  }));
  return (
    <Choice
      label={props.label}
      value={props.value}
      onChange={props.onChange}
      options={[...(props.other ?? []), ...options]}
    />
  );
}

const EXPIRIES: { id: string; label: string }[] = [
  { id: '0', label: 'Never' },
  { id: '3600', label: 'After an hour' },
  { id: '28800', label: 'After 8 hours' },
  { id: '86400', label: 'After a day' },
  { id: '604800', label: 'After a week' },
];

export function CloneDatabase({ database, snapshots, at }: { database: Database; snapshots: Snapshot[]; at?: string }) {
  const [name, setName] = useState('');
  const [snapshot, setSnapshot] = useState(at ?? 'now');
  const [port, setPort] = useState('');
  const [expiry, setExpiry] = useState('0');
  const [isFresh, setFresh] = useState(false);
  const run = async () => {
    const done = await api.post('/v1/databases/{database}/clone', {
      path: { database: database.name },
      body: {
        name,
        snapshot: snapshot === 'now' ? null : snapshot,
        port: port ? Number(port) : null,
        expires_after_seconds: expiry === '0' ? null : Number(expiry),
        has_fresh_password: isFresh,
      },
    });
    return ready(done);
  };
  return (
    <FormDialog
      title={`Clone database ${database.name}`}
      task={`clone database ${database.name} to ${name}`}
      submit="Clone"
      isIncomplete={name === '' || !isPort(port)}
      run={run}
    >
      <TextInput label="Name of the clone" value={name} onChange={setName} autoFocus />
      <SnapshotChoice
        label="As it was"
        snapshots={snapshots}
        value={snapshot}
        onChange={setSnapshot}
        other={[{ id: 'now', label: 'Now', note: 'a snapshot is taken' }]}
      />
      <Port value={port} onChange={setPort} />
      <Choice label="Delete the clone" value={expiry} onChange={setExpiry} options={EXPIRIES} />
      <Toggle label="A password of its own for its superuser" isOn={isFresh} onChange={setFresh} />
      <p className="note">{database.name} goes on meanwhile. The clone takes no space for what it begins with.</p>
    </FormDialog>
  );
}

export function ResetDatabase({ database, snapshots }: { database: Database; snapshots: Snapshot[] }) {
  const origin = database.origin?.database ?? '';
  const [choice, setChoice] = useState('latest');
  const run = async () => {
    const done = await api.post('/v1/databases/{database}/reset', {
      path: { database: database.name },
      body: choice === 'latest' ? { latest: true } : choice === 'same' ? {} : { snapshot: choice },
    });
    return ready(done);
  };
  return (
    <FormDialog
      title={`Reset database ${database.name}`}
      task={`reset database ${database.name}`}
      submit="Reset"
      isDanger
      typed={database.name}
      run={run}
    >
      <p className="loss">
        All that {database.name} holds of its own is lost. Connections to it end. Its name, port and version stay.
      </p>
      <SnapshotChoice
        label={`To what ${origin} held`}
        snapshots={snapshots}
        value={choice}
        onChange={setChoice}
        other={[
          { id: 'latest', label: 'Now', note: 'a snapshot is taken' },
          { id: 'same', label: 'When the clone was made', note: database.origin?.snapshot },
        ]}
      />
    </FormDialog>
  );
}

export function RestoreDatabase({ database, snapshots, at }: { database: Database; snapshots: Snapshot[]; at?: string }) {
  const [snapshot, setSnapshot] = useState(at ?? '');
  const run = async () => {
    const body = { snapshot };
    const done = await api.post('/v1/databases/{database}/restore', { path: { database: database.name }, body });
    return ready(done);
  };
  return (
    <FormDialog
      title={`Restore database ${database.name}`}
      task={`restore database ${database.name}`}
      submit="Restore"
      isDanger
      typed={database.name}
      isIncomplete={snapshot === ''}
      run={run}
    >
      <p className="loss">
        {database.name} is set back: what was committed after the snapshot is no longer in it. Connections end. What
        it holds now is kept in another snapshot.
      </p>
      <SnapshotChoice label="To snapshot" snapshots={snapshots} value={snapshot} onChange={setSnapshot} />
      <p className="note">To look first and lose nothing, clone the snapshot instead.</p>
    </FormDialog>
  );
}

export function ProveDatabase({ database, snapshots, at }: { database: Database; snapshots: Snapshot[]; at?: string }) {
  const [snapshot, setSnapshot] = useState(at ?? 'now');
  const run = async () => {
    const body = { snapshot: snapshot === 'now' ? null : snapshot };
    const proof = await api.post('/v1/databases/{database}/verify', { path: { database: database.name }, body });
    const took = `recovery ${millis(proof.start_millis)}, took ${millis(proof.took_millis)}`;
    if (proof.findings.length === 0) return <Notice tone="good">{proof.snapshot}: proven, {took}.</Notice>;
    return (
      <Notice tone="bad">
        {proof.snapshot}: NOT proven, {plural(proof.findings.length, 'finding')}, {took}.
        <ul>
          {proof.findings.slice(0, 5).map((finding) => (
            <li key={finding}>{finding}</li>
          ))}
        </ul>
      </Notice>
    );
  };
  return (
    <FormDialog title={`Prove ${database.name}`} task={`prove database ${database.name}`} submit="Prove" run={run}>
      <SnapshotChoice
        label="Snapshot"
        snapshots={snapshots}
        value={snapshot}
        onChange={setSnapshot}
        other={[{ id: 'now', label: 'Now', note: 'a snapshot is taken and deleted afterwards' }]}
      />
      <p className="note">
        A server is started on a clone of the snapshot, every table, index and page is checked, and the clone is
        removed. {database.name} goes on meanwhile.
      </p>
    </FormDialog>
  );
}

export function SnapshotDatabase({ database }: { database: Database }) {
  const [name, setName] = useState(nameOfNow);
  const run = async () => {
    await api.post('/v1/database-snapshots', { body: { databases: [database.name], name } });
  };
  return (
    <FormDialog
      title={`Snapshot of database ${database.name}`}
      task={`take snapshot ${name} of ${database.name}`}
      submit="Take it"
      isIncomplete={name === ''}
      run={run}
    >
      <TextInput label="Name" value={name} onChange={setName} autoFocus />
      <p className="note">All its volumes at one instant, without stopping the server.</p>
    </FormDialog>
  );
}

function DeleteDatabase({ database, clones }: { database: Database; clones: string[] }) {
  const run = async () => {
    const done = await api.delete('/v1/databases/{database}', { path: { database: database.name } });
    navigate('/databases');
    return (
      <>
        Its volumes ({done.volumes.join(', ')}) can come back for {duration(done.recoverable_seconds)}.
        {done.notes?.map((note) => <div key={note}>{note}</div>)}
      </>
    );
  };
  return (
    <FormDialog
      title={`Delete database ${database.name}`}
      task={`delete database ${database.name}`}
      submit="Delete"
      isDanger
      typed={database.name}
      run={run}
    >
      <p className="loss">
        Its server is stopped and {plural(database.volumes.length, 'volume')} deleted:{' '}
        {database.volumes.map(({ volume }) => volume).join(', ')}. <code>ashlar volume undelete</code> brings them back
        for a day.
      </p>
      {clones.length > 0 && <p>Its clones stay: {clones.join(', ')}.</p>}
    </FormDialog>
  );
}

export function ExpireDatabase({ database }: { database: Database }) {
  const [expiry, setExpiry] = useState('28800');
  const run = async () => {
    const body = { expires_after_seconds: expiry === '0' ? null : Number(expiry) };
    await api.put('/v1/databases/{database}/expiry', { path: { database: database.name }, body });
  };
  return (
    <FormDialog
      title={`When ${database.name} is deleted`}
      task={`set when ${database.name} is deleted`}
      submit="Set"
      run={run}
    >
      <Choice label="Delete the clone, from now" value={expiry} onChange={setExpiry} options={EXPIRIES} />
      <p className={expiry === '0' ? 'note' : 'loss'}>
        {expiry === '0'
          ? `${database.name} stays until somebody deletes it.`
          : `Then ${database.name} is deleted with all that it holds. Its volumes can come back for a day.`}
      </p>
    </FormDialog>
  );
}

function StopDatabase({ database }: { database: Database }) {
  const run = async () => {
    await api.post('/v1/databases/{database}/stop', { path: { database: database.name } });
  };
  return (
    <FormDialog
      title={`Stop database ${database.name}`}
      task={`stop database ${database.name}`}
      submit="Stop"
      isDanger
      run={run}
    >
      <p className="loss">Its server is shut down and all connections end. It stays stopped until somebody starts it.</p>
    </FormDialog>
  );
}

function start(name: string): void {
  runTask(`start database ${name}`, async () => {
    ready(await api.post('/v1/databases/{database}/start', { path: { database: name } }));
  });
}

/// The snapshots that hold all of a database that snapshots hold.
export function snapshotsOf(database: Database, snapshots: readonly Snapshot[]): Snapshot[] {
  const needed = database.volumes.filter(({ role }) => role !== 'temp').map(({ volume }) => volume);
  return snapshots
    .filter((snapshot) => needed.every((volume) => snapshot.volumes.includes(volume)))
    .sort((left, right) => right.created_unix_seconds - left.created_unix_seconds);
}

/// Why nothing may be begun with a database now; null: it may.
export function busyWith({ name, state, away }: Database): string | null {
  if (away) return `It is away at ${away.host}: \`ashlar database return ${name}\` takes it back.`;
  return ['running', 'stopped', 'failed'].includes(state) ? null : `It is ${state}: wait until that is over.`;
}

/// Why a database may not be set back; null: it may.
export function followsAnother({ standby }: Database): string | null {
  return standby ? 'A standby follows its primary: promote it first.' : null;
}

interface Around {
  /// All databases.
  all: readonly Database[];
  /// All snapshots.
  snapshots: readonly Snapshot[];
}

export function databaseActions(database: Database, { all, snapshots }: Around): Action[] {
  const own = snapshotsOf(database, snapshots);
  const origin = all.find((one) => one.name === database.origin?.database);
  const ofOrigin = origin ? snapshotsOf(origin, snapshots) : [];
  const clones = all.filter((one) => one.origin?.database === database.name).map(({ name }) => name);
  const busy = busyWith(database);
  const standby = followsAnother(database);
  const notClone = database.origin ? null : 'It is no clone: restore sets it back to a snapshot of its own.';
  const open = (content: ReactNode) => () => openDialog(content);
  const isDown = database.state === 'stopped' || database.state === 'failed';
  return [
    {
      id: 'clone',
      label: 'Clone…',
      refusal: denied('database_clone') ?? busy,
      onAction: open(<CloneDatabase database={database} snapshots={own} />),
    },
    {
      id: 'snapshot',
      label: 'Take a snapshot…',
      needs: 'database_snapshot',
      refusal: busy,
      onAction: open(<SnapshotDatabase database={database} />),
    },
    {
      id: 'prove',
      label: 'Prove…',
      refusal: denied('database_verify') ?? busy,
      onAction: open(<ProveDatabase database={database} snapshots={own} />),
    },
    {
      id: 'reset',
      label: 'Reset…',
      isDanger: true,
      refusal: denied('database_reset') ?? notClone ?? standby ?? busy,
      onAction: open(<ResetDatabase database={database} snapshots={ofOrigin} />),
    },
    {
      id: 'restore',
      label: 'Restore…',
      isDanger: true,
      refusal: denied('database_restore') ?? standby ?? busy ?? (own.length === 0 ? 'It has no snapshot to go back to.' : null),
      onAction: open(<RestoreDatabase database={database} snapshots={own} />),
    },
    {
      id: 'expire',
      label: 'Set when it is deleted…',
      refusal:
        denied('database_expire') ??
        (database.origin ? (database.away ? null : busy) : 'It is no clone: only clones are deleted by the clock.'),
      onAction: open(<ExpireDatabase database={database} />),
    },
    isDown
      ? { id: 'start', label: 'Start', refusal: denied('database_start') ?? busy, onAction: () => start(database.name) }
      : {
          id: 'stop',
          label: 'Stop…',
          isDanger: true,
          refusal: denied('database_stop') ?? busy,
          onAction: open(<StopDatabase database={database} />),
        },
    {
      id: 'delete',
      label: 'Delete…',
      isDanger: true,
      refusal: denied('database_delete') ?? (database.state === 'deleting' ? 'It is being deleted.' : null),
      onAction: open(<DeleteDatabase database={database} clones={clones} />),
    },
  ];
}

export function goTo(name: string): void {
  navigate(to.database(name));
}
