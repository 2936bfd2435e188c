// What can be done with a volume.
import { useState } from 'react';
import { api } from '../api/client';
import { useGet } from '../api/resource';
import type { Volume } from '../api/types';
import { openDialog } from '../state/dialog';
import { navigate, to } from '../state/router';
import { runTask } from '../state/tasks';
import { Facts, Bytes } from '../ui/basics';
import { FormDialog } from '../ui/dialog';
import { Choice, sizeError, SizeInput, TextInput, Toggle } from '../ui/fields';
import { bytes, duration, parseSize } from '../ui/format';
import type { Action } from '../ui/menu';
import { SnapshotVolume } from './snapshot';

const COMPRESSIONS: { id: Volume['compression']; label: string; note: string }[] = [
  { id: 'lz4', label: 'LZ4', note: 'costs least time' },
  { id: 'zstd', label: 'Zstandard', note: 'saves more, costs more' },
  { id: 'off', label: 'Off', note: 'for data that are compressed or encrypted already' },
];
const PROFILES: { id: Volume['profile']; label: string; note: string }[] = [
  { id: 'oltp', label: 'OLTP', note: 'small random writes, as of a database' },
  { id: 'general', label: 'General', note: 'a bit of everything' },
  { id: 'bulk', label: 'Bulk', note: 'large sequential writes, as of backups' },
];

/// A size that a person typed and that a volume can have.
export const sizeOf = (text: string): number => parseSize(text) ?? 0;
const isBadSize = (text: string): boolean => sizeError(text) !== null || sizeOf(text) <= 0;

export function CreateVolume() {
  const pools = useGet('/v1/pools').data ?? [];
  const [name, setName] = useState('');
  const [size, setSize] = useState('64 GiB');
  const [pool, setPool] = useState('');
  const [compression, setCompression] = useState<Volume['compression']>('lz4');
  const [profile, setProfile] = useState<Volume['profile']>('oltp');
  const [isDeduped, setDeduped] = useState(false);
  const [block, setBlock] = useState<'512' | '4096'>('4096');
  const chosen = pool || pools[0]?.name || '';
  const run = async () => {
    await api.post('/v1/volumes', {
      body: {
        name,
        size_bytes: sizeOf(size),
        pool: chosen,
        compression,
        profile,
        dedupe: isDeduped,
        logical_block_bytes: block === '512' ? 512 : 4096,
      },
    });
    navigate(to.volume(name));
  };
  return (
    <FormDialog
      title="Create a volume"
      task={`create volume ${name}`}
      submit="Create"
      isIncomplete={name === '' || isBadSize(size)}
      refusal={pools.length === 0 ? 'There is no pool yet. `ashlar pool create` makes one.' : null}
      run={run}
    >
      <TextInput label="Name" value={name} onChange={setName} autoFocus isRequired />
      <SizeInput label="Size" value={size} onChange={setSize} hint="Thin: it takes what is written." />
      {pools.length > 1 && (
        <Choice
          label="Pool"
          value={chosen}
          onChange={setPool}
          options={pools.map((one) => ({ id: one.name, label: one.name, note: `${one.full_percent ?? 0} % full` }))}
        />
      )}
      <div className="pair">
        <Choice label="Compression" value={compression} onChange={setCompression} options={COMPRESSIONS} />
        <Choice label="Profile" value={profile} onChange={setProfile} options={PROFILES} />
      </div>
      <Choice
        label="Block size that hosts see"
        value={block}
        onChange={setBlock}
        options={[
          { id: '4096', label: '4096 bytes', note: 'what databases and file systems use' },
          { id: '512', label: '512 bytes', note: 'for old programs' },
        ]}
      />
      <Toggle label="Dedupe: store equal blocks of the pool once" isOn={isDeduped} onChange={setDeduped} />
    </FormDialog>
  );
}

function ResizeVolume({ volume }: { volume: Volume }) {
  const [size, setSize] = useState(bytes(volume.size_bytes));
  const isSmaller = sizeOf(size) < volume.size_bytes;
  const isBad = isBadSize(size) || sizeOf(size) === volume.size_bytes;
  const run = async () => {
    const body = { size_bytes: sizeOf(size), may_shrink: isSmaller };
    await api.patch('/v1/volumes/{volume}', { path: { volume: volume.name }, body });
  };
  return (
    <FormDialog
      title={`Resize volume ${volume.name}`}
      task={`resize volume ${volume.name}`}
      submit={isSmaller ? 'Make smaller' : 'Resize'}
      isDanger={isSmaller}
      typed={isSmaller && !isBad ? volume.name : undefined}
      isIncomplete={isBad}
      run={run}
    >
      <Facts of={[['Size now', <Bytes of={volume.size_bytes} />]]} />
      <SizeInput label="New size" value={size} onChange={setSize} autoFocus />
      {isSmaller && !isBad ? (
        <p className="loss">
          Smaller: the last {bytes(volume.size_bytes - sizeOf(size))} of volume {volume.name} are lost, whatever is
          there. Make the file system on it smaller first.
        </p>
      ) : (
        <p className="note">Hosts see the new size at once. The file system on it is enlarged there.</p>
      )}
    </FormDialog>
  );
}

export function CloneFrom({ from, title }: { from: string; title: string }) {
  const [name, setName] = useState('');
  const run = async () => {
    const made = await api.post('/v1/clones', { body: { from, name } });
    if (made.length === 1) navigate(to.volume(made[0].name));
  };
  return (
    <FormDialog title={title} task={`clone ${from} to ${name}`} submit="Clone" isIncomplete={name === ''} run={run}>
      <TextInput
        label="Name of the clone"
        value={name}
        onChange={setName}
        autoFocus
        hint="Of a snapshot of several volumes each clone is called so, with the volume's name behind it."
      />
      <p className="note">A clone is a volume of its own that begins with this content and takes no space for it.</p>
    </FormDialog>
  );
}

function DeleteVolume({ volume }: { volume: Volume }) {
  const [isNow, setNow] = useState(false);
  const run = async () => {
    const query = { now: isNow };
    const done = await api.delete('/v1/volumes/{volume}', { path: { volume: volume.name }, query });
    navigate('/volumes');
    return done.recoverable_seconds > 0 ? `It can come back for ${duration(done.recoverable_seconds)}.` : undefined;
  };
  return (
    <FormDialog
      title={`Delete volume ${volume.name}`}
      task={`delete volume ${volume.name}`}
      submit="Delete"
      isDanger
      typed={volume.name}
      run={run}
    >
      <p className="loss">
        Volume {volume.name} with {bytes(volume.written_bytes)} written is deleted. Its snapshots and clones stay.
      </p>
      <Facts of={[['Only it holds', <Bytes of={volume.unique_bytes} />]]} />
      <Toggle label="At once and for good: it cannot come back" isOn={isNow} onChange={setNow} />
      {!isNow && (
        <p className="note">
          <code>ashlar volume undelete</code> brings it back for as long as the setting{' '}
          <code>deleted_volumes_hours</code> says, a day if nobody changed it. Its space is free after that, or earlier if room is needed.
        </p>
      )}
    </FormDialog>
  );
}

function AttachVolume({ volume }: { volume: Volume }) {
  const [mount, setMount] = useState('');
  const [format, setFormat] = useState<'none' | 'ext4' | 'xfs'>('none');
  const run = async () => {
    const body = {
      volume: volume.name,
      mount: mount || null,
      format: format === 'none' ? null : format,
    };
    const made = await api.post('/v1/attachments', { body });
    return `It is ${made.device}${made.mount ? `, mounted on ${made.mount}` : ''}.`;
  };
  return (
    <FormDialog
      title={`Attach volume ${volume.name}`}
      task={`attach volume ${volume.name}`}
      submit="Attach"
      isIncomplete={mount !== '' && !mount.startsWith('/')}
      run={run}
    >
      <p className="note">It becomes a block device of the array's machine.</p>
      <TextInput
        label="Mount on"
        value={mount}
        onChange={setMount}
        hint="An absolute directory; empty: not mounted."
        placeholder="/mnt/data"
      />
      <Choice
        label="Make a file system first"
        value={format}
        onChange={setFormat}
        options={[
          { id: 'none', label: 'No, it has one' },
          { id: 'ext4', label: 'ext4' },
          { id: 'xfs', label: 'XFS' },
        ]}
      />
    </FormDialog>
  );
}

export function detach(volume: string): void {
  runTask(`detach volume ${volume}`, async () => {
    await api.delete('/v1/attachments/{volume}', { path: { volume } });
  });
}

/// The database that a volume belongs to, if any: its commands go by the database then.
export function useOwners(): Map<string, string> {
  const databases = useGet('/v1/databases').data ?? [];
  return new Map(databases.flatMap((one) => one.volumes.map(({ volume }) => [volume, one.name])));
}

export function volumeActions(volume: Volume, owner: string | undefined): Action[] {
  const isAttached = volume.device ? `It is attached as ${volume.device}: detach it first.` : null;
  const isOwned = owner ? `It belongs to database ${owner}: use the database's page.` : null;
  const open = (content: React.ReactNode) => () => openDialog(content);
  return [
    { id: 'snapshot', label: 'Take a snapshot…', needs: 'snapshot_create', onAction: open(<SnapshotVolume volumes={[volume.name]} />) },
    {
      id: 'clone',
      label: 'Clone…',
      needs: 'clone_create',
      onAction: open(<CloneFrom from={volume.name} title={`Clone volume ${volume.name} as it is now`} />),
    },
    { id: 'resize', label: 'Resize…', needs: 'volume_resize', refusal: isOwned, onAction: open(<ResizeVolume volume={volume} />) },
    volume.device
      ? {
          id: 'detach',
          label: 'Detach',
          needs: 'attachment_delete',
          refusal: isOwned,
          onAction: () => detach(volume.name),
        }
      : {
          id: 'attach',
          label: 'Attach…',
          needs: 'attachment_create',
          refusal: isOwned,
          onAction: open(<AttachVolume volume={volume} />),
        },
    {
      id: 'delete',
      label: 'Delete…',
      isDanger: true,
      needs: 'volume_delete',
      refusal: isOwned ?? isAttached,
      onAction: open(<DeleteVolume volume={volume} />),
    },
  ];
}

export { COMPRESSIONS };
