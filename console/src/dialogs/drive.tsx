// What can be done with drives and with the scrub of a pool.
import { useState } from 'react';
import { api } from '../api/client';
import { begin } from '../api/jobs';
import type { Drive, Pool } from '../api/types';
import { openDialog } from '../state/dialog';
import { runTask } from '../state/tasks';
import { Facts, Bytes } from '../ui/basics';
import { FormDialog } from '../ui/dialog';
import { sizeError, SizeInput, TextInput, Toggle } from '../ui/fields';
import { bytes, parseSize } from '../ui/format';
import { FollowedJob } from '../ui/job';
import type { Action } from '../ui/menu';
import { scrubLoss } from './job';
import { ReplaceDrive } from './replace';

/// How a drive is called, as in `drive 3`.
export const nameOf = (drive: Drive): string => (drive.number === null || drive.number === undefined ? drive.path : `drive ${drive.number}`);

const LOST: Record<Pool['protection'], number> = { none: 0, single: 1, dual: 2 };

/// Why a pool cannot do without another drive now; null: it can.
export function cannotSpare(pool: Pool): string | null {
  if (pool.protection === 'none') return 'The pool has no protection: all its drives are needed.';
  const lacking = pool.drives.filter(({ state }) => state === 'out' || state === 'rebuilding').length;
  if (lacking < LOST[pool.protection]) return null;
  return `Already ${lacking} of its drives ${lacking === 1 ? 'is' : 'are'} missing or being rebuilt: no other can be spared.`;
}

function OfflineDrive({ pool, drive }: { pool: Pool; drive: Drive }) {
  const name = nameOf(drive);
  const run = async () => {
    const path = { pool: pool.name, number: drive.number ?? 0 };
    await api.post('/v1/pools/{pool}/drives/{number}/offline', { path });
  };
  const others = LOST[pool.protection] - 1;
  return (
    <FormDialog
      title={`Take ${name} of pool ${pool.name} out of service`}
      task={`take ${name} of pool ${pool.name} out of service`}
      submit="Take it out"
      isDanger
      run={run}
    >
      <p className="loss">
        {drive.path} is read and written no more. The pool serves on, but then{' '}
        {others > 0 ? `only ${others} more drive may fail` : 'no other drive may fail'} until it is back or replaced.
      </p>
      <p className="note">Taken back into service, it is given what was written meanwhile.</p>
    </FormDialog>
  );
}

function OnlineDrive({ pool, drive }: { pool: Pool; drive: Drive }) {
  const [path, setPath] = useState('');
  const name = nameOf(drive);
  const run = async () => {
    const of = { pool: pool.name, number: drive.number ?? 0 };
    await api.post('/v1/pools/{pool}/drives/{number}/online', { path: of, body: { path: path || null } });
  };
  return (
    <FormDialog
      title={`Take ${name} of pool ${pool.name} back`}
      task={`take ${name} of pool ${pool.name} back into service`}
      submit="Take it back"
      isIncomplete={path !== '' && !path.startsWith('/')}
      run={run}
    >
      <TextInput
        label="Where it is"
        value={path}
        onChange={setPath}
        placeholder={drive.path || drive.last_path || ''}
        hint="An absolute path; empty: where it was."
      />
      <p className="note">What was written meanwhile is rebuilt in the background.</p>
    </FormDialog>
  );
}

function RemoveDrive({ pool, drive }: { pool: Pool; drive: Drive }) {
  const name = nameOf(drive);
  const run = async () => {
    const path = { pool: pool.name, number: drive.number ?? 0 };
    await api.delete('/v1/pools/{pool}/drives/{number}', { path });
  };
  return (
    <FormDialog
      title={`Remove ${name} from pool ${pool.name}`}
      task={`remove ${name} from pool ${pool.name}`}
      submit="Remove"
      isDanger
      run={run}
    >
      <p className="loss">
        The pool gets smaller by {bytes(drive.size_bytes)}. What is on {drive.path || name} moves to the other drives
        in the background; then it no longer carries the pool. No data are lost.
      </p>
    </FormDialog>
  );
}

function EnduranceDrive({ pool, drive }: { pool: Pool; drive: Drive }) {
  const [endurance, setEndurance] = useState(drive.endurance_bytes ? bytes(drive.endurance_bytes) : '');
  const size = parseSize(endurance);
  const run = async () => {
    await api.patch('/v1/pools/{pool}/drives/{number}', {
      path: { pool: pool.name, number: drive.number ?? 0 },
      body: { endurance_bytes: size },
    });
  };
  return (
    <FormDialog
      title={`Endurance of ${nameOf(drive)} of pool ${pool.name}`}
      task={`set the endurance of ${nameOf(drive)} of pool ${pool.name}`}
      submit="Set"
      isIncomplete={endurance !== '' && (size === null || size <= 0)}
      run={run}
    >
      <TextInput
        label="What may be written to it in its life"
        value={endurance}
        onChange={setEndurance}
        autoFocus
        hint={`From its data sheet, as 1200 TiB. Empty: not known.${size ? ` Reads ${bytes(size)}.` : ''}`}
      />
      <Facts of={[['Written so far', <Bytes of={drive.written_bytes} />]]} />
    </FormDialog>
  );
}

export function driveActions(pool: Pool, drive: Drive): Action[] {
  const unknown = drive.number === null || drive.number === undefined ? 'Its pool is not open.' : null;
  const spared = drive.state === 'online' || drive.state === 'moving' ? cannotSpare(pool) : null;
  const isOut = drive.state === 'out' || drive.state === 'spare';
  const open = (content: React.ReactNode) => () => openDialog(content);
  return [
    {
      id: 'replace',
      needs: 'drive_replace',
      label: 'Replace…',
      refusal: unknown,
      onAction: open(<ReplaceDrive pool={pool} number={drive.number ?? undefined} />),
    },
    {
      id: 'offline',
      needs: 'drive_offline',
      label: 'Take out of service…',
      isDanger: true,
      refusal: unknown ?? (isOut ? 'It is out of service already.' : spared),
      onAction: open(<OfflineDrive pool={pool} drive={drive} />),
    },
    {
      id: 'online',
      needs: 'drive_online',
      label: 'Take back into service…',
      refusal: unknown ?? (drive.state === 'out' || drive.state === 'spare' ? null : 'It is in service.'),
      onAction: open(<OnlineDrive pool={pool} drive={drive} />),
    },
    {
      id: 'endurance',
      label: 'Set its endurance…',
      needs: 'drive_set',
      refusal: unknown,
      onAction: open(<EnduranceDrive pool={pool} drive={drive} />),
    },
    {
      id: 'remove',
      needs: 'drive_remove',
      label: 'Remove for good…',
      isDanger: true,
      refusal:
        unknown ??
        (drive.state === 'leaving' || drive.state === 'moving' ? 'It is leaving already.' : null) ??
        (pool.drives.length <= 1 ? 'It is the only drive of the pool.' : null),
      onAction: open(<RemoveDrive pool={pool} drive={drive} />),
    },
  ];
}

export function AddDrive({ pool }: { pool: Pool }) {
  const [path, setPath] = useState('');
  const [size, setSize] = useState('');
  const [isForced, setForced] = useState(false);
  const paths = path.split(/[\s,]+/).filter((one) => one !== '');
  const isBad = paths.length === 0 || paths.some((one) => !one.startsWith('/')) || sizeError(size) !== null;
  const run = async () => {
    const size_bytes = size.trim() ? parseSize(size) : null;
    const drives = paths.map((one) => ({ path: one, size_bytes, force: isForced }));
    await api.post('/v1/pools/{pool}/drives', { path: { pool: pool.name }, body: { drives } });
  };
  return (
    <FormDialog
      title={`Add drives to pool ${pool.name}`}
      task={`add drives to pool ${pool.name}`}
      submit="Add"
      isDanger={isForced}
      typed={isForced ? pool.name : undefined}
      isIncomplete={isBad}
      run={run}
    >
      <TextInput
        label="Paths"
        value={path}
        onChange={setPath}
        autoFocus
        placeholder="/dev/nvme8n1"
        hint="Absolute; several with a space between. With protection, at least as many as a row is wide."
      />
      <SizeInput label="Make files of this size" value={size} onChange={setSize} hint="Empty: they are there." />
      <Force isOn={isForced} onChange={setForced} />
      <p className="note">There is more room at once. Nothing is moved.</p>
    </FormDialog>
  );
}

export function Force({ isOn, onChange }: { isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <>
      <Toggle label="Take it although it holds data" isOn={isOn} onChange={onChange} />
      {isOn && <p className="loss">Data, a file system or another pool on it are lost.</p>}
    </>
  );
}

/// Begins a check or a scrub; the tray follows its job to the end.
export function startOn(pool: string, what: 'check' | 'scrub'): void {
  runTask(`start a ${what} of pool ${pool}`, async () => {
    const job = await begin(`/v1/pools/{pool}/${what}`, pool);
    return <FollowedJob id={job.id} />;
  });
}

export function changeScrub(pool: string, action: 'pause' | 'resume'): void {
  runTask(`${action} the scrub of pool ${pool}`, async () => {
    await api.patch('/v1/pools/{pool}/scrub', { path: { pool }, body: { action } });
  });
}

export function StopScrub({ pool }: { pool: string }) {
  const run = async () => {
    await api.patch('/v1/pools/{pool}/scrub', { path: { pool }, body: { action: 'stop' } });
  };
  return (
    <FormDialog
      title={`Stop the scrub of pool ${pool}`}
      task={`stop the scrub of pool ${pool}`}
      submit="Stop it"
      isDanger
      run={run}
    >
      <p className="loss">{scrubLoss(pool)}</p>
    </FormDialog>
  );
}
