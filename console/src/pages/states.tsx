// How the states of the array's objects look and what they are called.
import type { Database, DatabaseProof, Drive, Pool, Schedule } from '../api/types';
import { Badge, Time, type Tone } from '../ui/basics';
import { millis, plural } from '../ui/format';

const POOL_TONES: Record<Pool['state'], Tone> = {
  online: 'good',
  opening: 'busy',
  degraded: 'warn',
  waiting: 'warn',
  'read-only': 'bad',
  failed: 'bad',
};

export function PoolBadge({ pool }: { pool: Pool }) {
  return <Badge tone={POOL_TONES[pool.state]}>{pool.state}</Badge>;
}

const DATABASE_TONES: Record<Database['state'], Tone> = {
  running: 'good',
  stopped: 'plain',
  failed: 'bad',
  making: 'busy',
  busy: 'busy',
  resetting: 'busy',
  deleting: 'busy',
  away: 'plain',
};

export function DatabaseBadge({ database }: { database: Database }) {
  return <Badge tone={DATABASE_TONES[database.state]}>{database.away ? `away at ${database.away.host}` : database.state}</Badge>;
}

const SCHEDULE_TONES: Record<Schedule['state'], Tone> = {
  active: 'good',
  paused: 'plain',
  'no-space': 'bad',
  failing: 'bad',
};

export function ScheduleBadge({ schedule }: { schedule: Schedule }) {
  return (
    <span title={schedule.reason ?? undefined}>
      <Badge tone={SCHEDULE_TONES[schedule.state]}>{schedule.state === 'no-space' ? 'no space' : schedule.state}</Badge>
    </span>
  );
}

const DRIVE_TONES: Record<string, Tone> = {
  online: 'good',
  moving: 'busy',
  rebuilding: 'busy',
  leaving: 'busy',
  spare: 'plain',
  out: 'bad',
  unknown: 'plain',
};

export function driveTone(drive: Drive): Tone {
  return DRIVE_TONES[drive.state] ?? 'warn';
}

export function DriveBadge({ drive }: { drive: Drive }) {
  return <Badge tone={driveTone(drive)}>{drive.state}</Badge>;
}

/// Whether a snapshot of a database was proven, when, and how long recovery took.
export function Proof({ proof }: { proof: DatabaseProof | undefined }) {
  if (!proof) return <Badge tone="plain">not proven yet</Badge>;
  const isProven = proof.findings.length === 0;
  return (
    <span className="proof" title={[...proof.findings, ...(proof.notes ?? [])].join('\n') || undefined}>
      <Badge tone={isProven ? 'good' : 'bad'}>
        {isProven ? 'proven' : `NOT proven, ${plural(proof.findings.length, 'finding')}`}
      </Badge>{' '}
      <small>
        <Time seconds={proof.proven_unix_seconds} />, recovery {millis(proof.start_millis)}
      </small>
    </span>
  );
}
