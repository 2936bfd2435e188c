// What can be done with snapshots.
import { useEffect, useState } from 'react';
import { api } from '../api/client';
import { asError, type ApiError } from '../api/error';
import type { Reclaim, Snapshot, Volume } from '../api/types';
import { openDialog } from '../state/dialog';
import { runTask } from '../state/tasks';
import { Bytes, Facts, Failure, Loading, Notice } from '../ui/basics';
import { FormDialog, ShowDialog } from '../ui/dialog';
import { TextInput, Toggle } from '../ui/fields';
import { plural } from '../ui/format';
import type { Action } from '../ui/menu';
import { CloneFrom } from './volume';

/// A name that nobody has to think of, as schedules call theirs: UTC, to the second.
export function nameOfNow(): string {
  return `manual.${new Date().toISOString().replace(/[-:]/g, '').replace(/\.\d+/, '')}`;
}

export function SnapshotVolume({ volumes }: { volumes: string[] }) {
  const [name, setName] = useState(nameOfNow);
  const run = async () => {
    await api.post('/v1/snapshots', { body: { name, volumes } });
  };
  return (
    <FormDialog
      title={`Snapshot of ${volumes.join(', ')}`}
      task={`take snapshot ${name}`}
      submit="Take it"
      isIncomplete={name === ''}
      run={run}
    >
      <TextInput label="Name" value={name} onChange={setName} autoFocus />
      <p className="note">
        It takes no space at first. What hosts overwrite later is kept for it. It is as safe as a crash: whoever uses
        it replays its log.
      </p>
    </FormDialog>
  );
}

function HoldSnapshot({ snapshot }: { snapshot: Snapshot }) {
  const [reason, setReason] = useState('');
  const run = async () => {
    await api.put('/v1/snapshots/{snapshot}/hold', { path: { snapshot: snapshot.name }, body: { reason } });
  };
  return (
    <FormDialog
      title={`Hold snapshot ${snapshot.name}`}
      task={`hold snapshot ${snapshot.name}`}
      submit="Hold"
      run={run}
    >
      <TextInput label="Reason" value={reason} onChange={setReason} autoFocus hint="For whoever wants to delete it." />
      <p className="note">Nobody and nothing deletes it until it is released.</p>
    </FormDialog>
  );
}

function RestoreSnapshot({ snapshot }: { snapshot: Snapshot }) {
  const volumes = snapshot.volumes.join(', ');
  const run = async () => {
    const done = await api.post('/v1/snapshots/{snapshot}/restore', { path: { snapshot: snapshot.name } });
    return done.backup ? `What ${volumes} held before is in snapshot ${done.backup}.` : undefined;
  };
  return (
    <FormDialog
      title={`Restore snapshot ${snapshot.name}`}
      task={`restore snapshot ${snapshot.name}`}
      submit="Restore"
      isDanger
      typed={snapshot.volumes.length === 1 ? snapshot.volumes[0] : snapshot.name}
      run={run}
    >
      <p className="loss">
        {volumes} {snapshot.volumes.length === 1 ? 'is' : 'are'} set back to this snapshot. What was written since is
        no longer in the volume; it is kept in another snapshot that is taken in the same instant.
      </p>
    </FormDialog>
  );
}

export function DeleteSnapshots({ snapshots }: { snapshots: Snapshot[] }) {
  const names = snapshots.map(({ name }) => name);
  const title = names.length === 1 ? `Delete snapshot ${names[0]}` : `Delete ${plural(names.length, 'snapshot')}`;
  const held = snapshots.filter(({ hold }) => hold);
  const run = async () => {
    await api.post('/v1/snapshot-deletions', { body: { names } });
  };
  return (
    <FormDialog
      title={title}
      task={title.toLowerCase()}
      submit="Delete"
      isDanger
      refusal={held.length > 0 ? `${held.map(({ name }) => name).join(', ')}: held. Release it first.` : null}
      run={run}
    >
      <p className="loss">
        {names.slice(0, 12).join(', ')}
        {names.length > 12 ? ` and ${names.length - 12} more` : ''}: nobody can go back to{' '}
        {names.length === 1 ? 'it' : 'them'} any more. Volumes and clones stay as they are.
      </p>
      <GivesBack names={names} />
    </FormDialog>
  );
}

/// What deleting these together would give back.
export function GivesBack({ names }: { names: string[] }) {
  const [answer, setAnswer] = useState<Reclaim | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    let isHere = true;
    // A snapshot may be called as a volume is; said which, no name means two things.
    const asked = names.map((name) => (name.includes(':') ? name : `snapshot:${name}`));
    api.post('/v1/space/reclaim', { body: { names: asked, within_seconds: 30 } }).then(
      (found) => isHere && setAnswer(found),
      (thrown: unknown) => isHere && setError(asError(thrown)),
    );
    return () => {
      isHere = false;
    };
  }, [names.join('\n')]);
  if (error) return <Failure error={error} />;
  if (!answer) return <Loading what="Counting what comes back" />;
  return (
    <>
      <Facts
        of={[
          ['Comes back', <b><Bytes of={answer.chunk_bytes + answer.map_page_bytes} /></b>],
          ['Stays, others need it', <Bytes of={answer.kept_bytes} />],
        ]}
      />
      {answer.held && answer.held.length > 0 && (
        <Notice tone="warn">Held, so they must be released first: {answer.held.join(', ')}.</Notice>
      )}
    </>
  );
}

export function WhatComesBack({ names }: { names: string[] }) {
  return (
    <ShowDialog title="What will I get back?">
      <p>
        If {names.length === 1 ? names[0] : `these ${names.length}`} {names.length === 1 ? 'is' : 'are'} deleted
        together. Nothing is deleted now.
      </p>
      <GivesBack names={names} />
      <p className="note">
        Exact at this moment. Two snapshots together may give back more than each alone: what only the two share goes
        with the last of them.
      </p>
    </ShowDialog>
  );
}

/// Why a snapshot's volumes may not be set back now.
function attachedOf(snapshot: Snapshot, volumes: readonly Volume[]): string | null {
  const attached = volumes.find((volume) => volume.device && snapshot.volumes.includes(volume.name));
  return attached ? `Volume ${attached.name} is attached as ${attached.device}: detach it first.` : null;
}

export function snapshotActions(snapshot: Snapshot, volumes: readonly Volume[], owner?: string): Action[] {
  const open = (content: React.ReactNode) => () => openDialog(content);
  const { name, hold } = snapshot;
  const isOwned = owner ? `It is of database ${owner}: restore it on the database's page.` : null;
  return [
    {
      id: 'clone',
      label: 'Clone…',
      needs: 'clone_create',
      onAction: open(<CloneFrom from={name} title={`Clone snapshot ${name}`} />),
    },
    {
      id: 'restore',
      label: 'Restore…',
      isDanger: true,
      needs: 'snapshot_restore',
      refusal: isOwned ?? attachedOf(snapshot, volumes),
      onAction: open(<RestoreSnapshot snapshot={snapshot} />),
    },
    hold
      ? { id: 'release', label: 'Release the hold', needs: 'snapshot_release', onAction: () => release(name) }
      : { id: 'hold', label: 'Hold…', needs: 'snapshot_hold', onAction: open(<HoldSnapshot snapshot={snapshot} />) },
    { id: 'back', label: 'What will I get back?', onAction: open(<WhatComesBack names={[name]} />) },
    {
      id: 'delete',
      label: 'Delete…',
      isDanger: true,
      needs: 'snapshot_delete',
      refusal: hold ? `It is held${hold.reason ? `: ${hold.reason}` : ''}. Release it first.` : null,
      onAction: open(<DeleteSnapshots snapshots={[snapshot]} />),
    },
  ];
}

function release(snapshot: string): void {
  runTask(`release snapshot ${snapshot}`, async () => {
    await api.delete('/v1/snapshots/{snapshot}/hold', { path: { snapshot } });
  });
}

export function DeleteSchedule({ name, count }: { name: string; count: number }) {
  const [isWhole, setWhole] = useState(false);
  const run = async () => {
    const query = { with_snapshots: isWhole };
    const done = await api.delete('/v1/schedules/{schedule}', { path: { schedule: name }, query });
    return `${plural(done.deleted_count, 'snapshot')} deleted, ${done.left_count} stay.`;
  };
  return (
    <FormDialog
      title={`Delete schedule ${name}`}
      task={`delete schedule ${name}`}
      submit="Delete"
      isDanger
      typed={isWhole ? name : undefined}
      run={run}
    >
      <p className="loss">No snapshots are taken for it any more, and none of its {count} is deleted by itself.</p>
      <Toggle label={`Delete its ${plural(count, 'snapshot')}, too`} isOn={isWhole} onChange={setWhole} />
    </FormDialog>
  );
}

