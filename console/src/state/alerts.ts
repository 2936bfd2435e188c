// What a person should look at, from what the array answers. Conditions end by themselves; events are acknowledged.
import { useMemo } from 'react';
import { connection, heard } from '../api/live';
import { useGet } from '../api/resource';
import type { Database, Door, Event, Pool, Schedule } from '../api/types';
import { Store, useStore } from './store';
import { to } from './router';

export interface Alert {
  id: string;
  level: 'warning' | 'error';
  object: string;
  text: string;
  todo?: string;
  link?: string;
  /// An event: it can be acknowledged.
  event?: Event;
  millis?: number;
}

const KEY = 'ashlar.acknowledged';

interface Acknowledged {
  bootId: string;
  sequences: number[];
}

function kept(): Acknowledged {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? '') as Acknowledged;
  } catch {
    return { bootId: '', sequences: [] };
  }
}

const acknowledged = new Store<Acknowledged>(kept());

/// Sequences count anew with each start of the array, so they are kept with its boot id.
export function acknowledge(events: Event[]): void {
  const bootId = connection.get().bootId ?? '';
  const before = acknowledged.get();
  const sequences = before.bootId === bootId ? before.sequences : [];
  const next = { bootId, sequences: [...sequences, ...events.map((event) => event.sequence)].slice(-2000) };
  localStorage.setItem(KEY, JSON.stringify(next));
  acknowledged.set(next);
}

/// Where an event's object is shown, as in `volume db`.
export function linkOf(object: string): string | undefined {
  const [kind, name] = object.split(/ (.*)/s);
  if (kind === 'volume' && name) return to.volume(name.split('@')[0]);
  if (kind === 'database' && name) return to.database(name);
  if (kind === 'pool') return '/drives';
  if (kind === 'snapshot') return '/snapshots';
  if (kind === 'schedule') return '/snapshots/schedules';
  if (kind === 'nbd') return '/clients';
  return undefined;
}

function ofPool(pool: Pool): Alert[] {
  const alerts: Alert[] = [];
  const object = `pool ${pool.name}`;
  const add = (id: string, level: Alert['level'], text: string, todo?: string, link = '/drives') =>
    alerts.push({ id: `${object}/${id}`, level, object, text, todo, link });
  if (pool.state !== 'online') {
    const level = pool.state === 'degraded' || pool.state === 'opening' ? 'warning' : 'error';
    add('state', level, `is ${pool.state}${pool.reason ? `: ${pool.reason}` : ''}${howFar(pool)}`);
  }
  const percent = pool.full_percent ?? 0;
  if (percent >= 80) {
    const todo = 'Delete what is not needed (Snapshots, “what will I get back?”), or add drives.';
    add('full', percent >= 90 ? 'error' : 'warning', `is ${percent} % full, ${fullMeans(percent)}`, todo, '/snapshots');
  }
  for (const drive of pool.drives) {
    const name = `drive ${drive.number ?? drive.path}`;
    // One that is being rebuilt is told of with its pool.
    const isTold = pool.rebuild?.drive_number === drive.number && drive.state === 'rebuilding';
    if (!['online', 'spare', 'unknown'].includes(drive.state) && !isTold) {
      add(name, drive.state === 'out' ? 'error' : 'warning', `${name} is ${drive.state}${drive.reason ? `: ${drive.reason}` : ''}`);
    }
    if ((drive.worn_percent ?? 0) >= 90) {
      add(`${name} worn`, 'warning', `${name} is ${drive.worn_percent} % worn`, 'Replace it in time.');
    }
  }
  if (pool.rebuild_error) add('rebuild', 'error', `the last rebuild failed: ${pool.rebuild_error}`);
  if (pool.removal?.trouble) add('removal', 'warning', `a removal does not go on: ${pool.removal.trouble}`);
  for (const volume of pool.volumes_at_limit ?? []) {
    add(`limit ${volume}`, 'warning', `volume ${volume} is at its limit`, 'Raise the limit.', to.volume(volume));
  }
  return alerts;
}

function howFar({ rebuild }: Pool): string {
  if (!rebuild || rebuild.total_bytes === 0) return '';
  return ` (${Math.floor((100 * rebuild.done_bytes) / rebuild.total_bytes)} % done)`;
}

function fullMeans(percent: number): string {
  if (percent >= 95) return 'deleted volumes are given up for room';
  if (percent >= 90) return 'schedules take no snapshots';
  return 'from 90 % on schedules take no snapshots';
}

function ofSchedule(schedule: Schedule): Alert[] {
  const object = `schedule ${schedule.name}`;
  const link = '/snapshots/schedules';
  const alerts: Alert[] = [];
  if (schedule.state === 'failing' || schedule.state === 'no-space') {
    const text = `takes no snapshots${schedule.reason ? `: ${schedule.reason}` : ''}`;
    alerts.push({ id: `${object}/state`, level: 'error', object, text, link });
  }
  const proof = schedule.last_proof;
  if (proof && !proof.is_proven) {
    const text = `snapshot ${proof.snapshot} of ${proof.database} is NOT proven`;
    alerts.push({ id: `${object}/proof`, level: 'error', object, text, link: to.database(proof.database) });
  }
  return alerts;
}

function ofDatabase(database: Database): Alert[] {
  const object = `database ${database.name}`;
  const link = to.database(database.name);
  const alerts: Alert[] = [];
  if (database.state === 'failed') {
    const todo = 'Start it; its log is in the directory of its server.';
    alerts.push({ id: `${object}/state`, level: 'error', object, text: 'its server failed', todo, link });
  }
  const proof = database.proofs?.[0];
  if (proof && proof.findings.length > 0) {
    const text = `snapshot ${proof.snapshot} is NOT proven: ${proof.findings[0]}`;
    const todo = 'Prove an older snapshot, and look at the relation that is named.';
    alerts.push({ id: `${object}/proof`, level: 'error', object, text, todo, link });
  }
  return alerts;
}

function ofEvent(event: Event): Alert {
  return {
    id: `event ${event.sequence}`,
    level: event.level === 'error' ? 'error' : 'warning',
    object: event.object,
    text: event.message,
    link: linkOf(event.object),
    event,
    millis: event.unix_millis,
  };
}

/// Events of the list and of the stream, the newest first, none twice.
export function mergeEvents(listed: Event[] | undefined, live: Event[]): Event[] {
  const all = new Map<number, Event>();
  for (const event of listed ?? []) all.set(event.sequence, event);
  for (const event of live) all.set(event.sequence, event);
  return [...all.values()].sort((left, right) => right.sequence - left.sequence);
}

/// Whether an event says that an address is not open, which it is by now.
function isOver(event: Event, doors: Door[]): boolean {
  return doors.some((door) => door.state === 'serving' && event.message.startsWith(`${door.address} is not open`));
}

export function useAlerts(): Alert[] {
  const pools = useGet('/v1/pools').data;
  const schedules = useGet('/v1/schedules').data;
  const databases = useGet('/v1/databases').data;
  const doors = useGet('/v1/status').data?.doors;
  const listed = useGet('/v1/events').data;
  const live = useStore(heard);
  const known = useStore(acknowledged);
  const bootId = useStore(connection).bootId;
  return useMemo(() => {
    const seen = new Set(known.bootId === bootId ? known.sequences : []);
    const events = mergeEvents(listed, live).filter(
      (event) => event.level !== 'info' && !seen.has(event.sequence) && !isOver(event, doors ?? []),
    );
    const all = [
      ...(pools ?? []).flatMap(ofPool),
      ...(databases ?? []).flatMap(ofDatabase),
      ...(schedules ?? []).flatMap(ofSchedule),
      ...events.map(ofEvent),
    ];
    return all.sort((left, right) => Number(right.level === 'error') - Number(left.level === 'error'));
  }, [pools, schedules, databases, doors, listed, live, known, bootId]);
}
