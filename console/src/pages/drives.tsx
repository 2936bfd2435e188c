// The drives of each pool, drawn as a shelf: one slot for each, with state, wear and what is under way.
import { useState } from 'react';
import { Meter } from 'react-aria-components';
import { figures } from '../api/live';
import { useGet } from '../api/resource';
import type { Drive, Pool } from '../api/types';
import { AddDrive, changeScrub, driveActions, nameOf, startOn, StopScrub } from '../dialogs/drive';
import { ReplaceDrive } from '../dialogs/replace';
import { openDialog } from '../state/dialog';
import { useStore } from '../state/store';
import { ActionButton, Bytes, Empty, Facts, Failure, Loading, Notice, Page, Panel, Progress, Time } from '../ui/basics';
import { bytes, bytesPerSecond, duration, plural, whole } from '../ui/format';
import { ActionMenu } from '../ui/menu';
import { SpaceBar } from '../ui/space-bar';
import { DriveBadge, driveTone, PoolBadge } from './states';

export function Drives() {
  const { data: pools, error } = useGet('/v1/pools', undefined, 3);
  return (
    <Page title="Drives" lead={pools && plural(pools.length, 'pool')}>
      {error && <Failure error={error} />}
      {!pools && !error && <Loading what="Asking for the pools" />}
      {pools?.length === 0 && (
        <Empty
          title="No drive yet"
          command="ashlar pool create main --protection dual --drive /dev/nvme0n1 --drive /dev/nvme1n1 …"
        >
          Drives make a pool. With protection, one or two of them may fail.
        </Empty>
      )}
      {pools?.map((pool) => <Shelf key={pool.name} pool={pool} />)}
    </Page>
  );
}

function Shelf({ pool }: { pool: Pool }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const now = useStore(figures)?.pools.find((one) => one.pool === pool.name);
  const drive = chosen === null ? undefined : pool.drives[chosen];
  return (
    <Panel
      title={
        <>
          Pool {pool.name} <PoolBadge pool={pool} />
        </>
      }
      note={
        <>
          {PROTECTIONS[pool.protection]} · scrubbed <Time seconds={pool.scrubbed_unix_seconds} />
          {now && (
            <>
              {' '}
              · drives read {bytesPerSecond(now.drive_read_bytes_per_second)}, write{' '}
              {bytesPerSecond(now.drive_write_bytes_per_second)}
            </>
          )}
        </>
      }
      aside={<PoolActions pool={pool} />}
    >
      {pool.reason && <Notice tone={pool.state === 'failed' ? 'bad' : 'warn'}>{pool.reason}</Notice>}
      {(pool.unused_drives ?? []).map((line) => (
        <Notice key={line} tone="warn">
          {line}
        </Notice>
      ))}
      <UnderWay pool={pool} />
      <div className="shelf" role="group" aria-label={`Drives of pool ${pool.name}`}>
        {pool.drives.map((one, index) => (
          <Slot
            key={one.number ?? one.path}
            drive={one}
            pool={pool}
            isChosen={index === chosen}
            onPress={() => setChosen(index === chosen ? null : index)}
          />
        ))}
      </div>
      {drive ? (
        <DriveDetails pool={pool} drive={drive} />
      ) : (
        <p className="note">Choose a drive for its wear, errors and actions.</p>
      )}
      {pool.space && (
        <details className="more-space">
          <summary>Space</summary>
          <SpaceBar pool={pool.name} space={pool.space} />
        </details>
      )}
    </Panel>
  );
}

const PROTECTIONS: Record<Pool['protection'], string> = {
  none: 'no protection: no drive may fail',
  single: 'one drive may fail',
  dual: 'two drives may fail',
};

function PoolActions({ pool }: { pool: Pool }) {
  const jobs = useGet('/v1/jobs', undefined, 3).data ?? [];
  const isChecked = jobs.some(
    ({ kind, state, object }) => kind === 'check' && state === 'running' && object.name === pool.name,
  );
  const isOpen = pool.space ? null : 'The pool is not open.';
  return (
    <div className="actions">
      <ActionButton needs="drive_replace" refusal={isOpen} onPress={() => openDialog(<ReplaceDrive pool={pool} />)}>
        Replace a drive…
      </ActionButton>
      <ActionButton needs="drives_add" refusal={isOpen} onPress={() => openDialog(<AddDrive pool={pool} />)}>
        Add drives…
      </ActionButton>
      <ActionButton
        needs="pool_check"
        refusal={isOpen ?? (isChecked ? 'A check is under way already.' : null)}
        onPress={() => startOn(pool.name, 'check')}
      >
        Check
      </ActionButton>
      <ActionButton
        needs="pool_scrub"
        refusal={isOpen ?? (pool.scrub ? 'A scrub is under way already.' : null)}
        onPress={() => startOn(pool.name, 'scrub')}
      >
        Scrub
      </ActionButton>
    </div>
  );
}

/// The shape says it, too: a lamp that is full, half, empty, or a triangle.
const LAMPS: Record<string, string> = { good: '●', busy: '◐', bad: '■', plain: '○', warn: '▲' };

interface SlotProps {
  drive: Drive;
  pool: Pool;
  isChosen: boolean;
  onPress: () => void;
}

function Slot({ drive, pool, isChosen, onPress }: SlotProps) {
  const worn = drive.worn_percent ?? null;
  const rebuild = pool.rebuild && pool.rebuild.drive_number === drive.number ? pool.rebuild : null;
  const share = rebuild && rebuild.total_bytes > 0 ? rebuild.done_bytes / rebuild.total_bytes : null;
  const tone = driveTone(drive);
  return (
    <button
      type="button"
      className={`slot tone-${tone} state-${drive.state}`}
      aria-pressed={isChosen}
      aria-label={`${nameOf(drive)}, ${drive.state}${worn === null ? '' : `, ${worn} % worn`}${drive.error_count ? `, ${drive.error_count} errors` : ''}`}
      onClick={onPress}
    >
      <span className="slot-number">{drive.number ?? '–'}</span>
      <span className="lamp" aria-hidden="true">
        {LAMPS[tone]}
      </span>
      <span className="slot-state">{drive.state}</span>
      <span className="slot-size">
        {share === null ? (drive.size_bytes > 0 ? bytes(drive.size_bytes) : '–') : `${Math.floor(share * 100)} % done`}
      </span>
      <span className="slot-wear" aria-hidden="true">
        <span className={wearClass(worn)} style={{ width: `${Math.min(100, worn ?? 0)}%` }} />
      </span>
      <span className="slot-size">{worn === null ? 'wear unknown' : `${worn} % worn`}</span>
      {Boolean(drive.error_count) && <span className="slot-errors">{plural(drive.error_count ?? 0, 'error')}</span>}
    </button>
  );
}

function wearClass(worn: number | null): string {
  if (worn === null) return 'wear none';
  return worn >= 90 ? 'wear high' : worn >= 70 ? 'wear some' : 'wear';
}

function UnderWay({ pool }: { pool: Pool }) {
  const { rebuild, removal, scrub } = pool;
  const left = (one: { remaining_millis?: number | null }) =>
    one.remaining_millis ? `, ${duration(one.remaining_millis / 1000)} left` : '';
  return (
    <>
      {rebuild && (
        <Progress
          label={`Rebuild of drive ${rebuild.drive_number}`}
          share={rebuild.total_bytes > 0 ? rebuild.done_bytes / rebuild.total_bytes : undefined}
          text={`${bytes(rebuild.done_bytes)} of ${bytes(rebuild.total_bytes)}${left(rebuild)}`}
        />
      )}
      {removal && (
        <>
          <Progress
            label={`Drive ${removal.drive_number} leaves`}
            share={removal.total_bytes > 0 ? removal.done_bytes / removal.total_bytes : undefined}
            text={`${bytes(removal.done_bytes)} of ${bytes(removal.total_bytes)}${left(removal)}`}
          />
          {removal.trouble && <Notice tone="warn">It does not go on: {removal.trouble}. It is tried again.</Notice>}
        </>
      )}
      {scrub && (
        <div className="with-actions">
          <Progress
            label={scrub.is_paused ? 'Scrub, paused' : scrub.total_segment_count > 0 ? 'Scrub' : 'Scrub: checks everything in use'}
            share={scrub.total_segment_count > 0 ? scrub.done_segment_count / scrub.total_segment_count : undefined}
            text={`${whole(scrub.done_segment_count)} of ${whole(scrub.total_segment_count)} segments, ${duration(scrub.elapsed_millis / 1000)}`}
          />
          <ActionButton
            needs="pool_scrub_change"
            onPress={() => changeScrub(pool.name, scrub.is_paused ? 'resume' : 'pause')}
          >
            {scrub.is_paused ? 'Resume' : 'Pause'}
          </ActionButton>
          <ActionButton needs="pool_scrub_change" onPress={() => openDialog(<StopScrub pool={pool.name} />)}>
            Stop…
          </ActionButton>
        </div>
      )}
      {pool.rebuild_error && <Notice tone="bad">The last rebuild failed: {pool.rebuild_error}</Notice>}
    </>
  );
}

function DriveDetails({ pool, drive }: { pool: Pool; drive: Drive }) {
  const name = nameOf(drive);
  return (
    <div className="drive-details" role="region" aria-label={`Details of ${name}`}>
      <header>
        <h3>
          {name[0].toUpperCase() + name.slice(1)} <DriveBadge drive={drive} />
        </h3>
        <ActionMenu of={`${name} of pool ${pool.name}`} actions={() => driveActions(pool, drive)}>
          Actions
        </ActionMenu>
      </header>
      {drive.reason && <Notice tone="warn">{drive.reason}</Notice>}
      <Wear drive={drive} />
      <Facts
        of={[
          ['Path', <code>{drive.path || drive.last_path || 'not found'}</code>],
          ['Size', <Bytes of={drive.size_bytes} />],
          ['Read since opened', <Bytes of={drive.read_bytes} />],
          ['Written by this array', <Bytes of={drive.written_bytes} />],
          ['Requests that failed', whole(drive.error_count ?? 0)],
          ['Blocks mended', whole(drive.mended_block_count ?? 0)],
          ['Reads others answered', whole(drive.steered_read_count ?? 0)],
          ['Identity', <code>{drive.id || '–'}</code>],
        ]}
      />
    </div>
  );
}

function Wear({ drive }: { drive: Drive }) {
  const worn = drive.worn_percent;
  if (worn === null || worn === undefined) {
    return (
      <p className="note">
        Its wear is not known, since it reports none. Set its endurance from the data sheet (Actions): then it is
        worked out of what is written.
      </p>
    );
  }
  const end = drive.worn_out_unix_seconds;
  return (
    <div className="wear-line">
      <Meter value={Math.min(100, worn)} aria-label="Worn" className="meter">
        <div className="progress-text">
          <span>Worn</span>
          <span>
            {worn} %{drive.reported_worn_percent !== null && drive.reported_worn_percent !== undefined && ', says the drive itself'}
          </span>
        </div>
        <div className="track">
          <div className={wearClass(worn)} style={{ width: `${Math.min(100, worn)}%` }} />
        </div>
      </Meter>
      <p className="note">
        {end ? (
          <>
            As it is written now it is worn out <Time seconds={end} />.
          </>
        ) : (
          'No forecast yet: it takes a day of writes.'
        )}
        {drive.endurance_bytes ? ` Endurance ${bytes(drive.endurance_bytes)}.` : ''}
      </p>
    </div>
  );
}
