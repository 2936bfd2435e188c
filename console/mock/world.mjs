// What the mock array holds: made up, the same at every start, of the shapes that docs/reference/openapi.json tells.
import { apiTokens, audit, users } from './access.mjs';
import { exports, hosts } from './hosts.mjs';
import { jobs } from './jobs.mjs';

const GIB = 2 ** 30;
const TIB = 2 ** 40;

/// Numbers that look random and are the same each time (mulberry32).
export function dice(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const whole = (value) => Math.floor(value / 4096) * 4096;
export const now = () => Math.floor(Date.now() / 1000);

function drive(number, part = {}) {
  return {
    number,
    id: `${(0x5eed0000 + number * 77).toString(16)}${'0'.repeat(24)}`.slice(0, 32),
    path: `/dev/nvme${number}n1`,
    state: 'online',
    size_bytes: TIB,
    counted_since_unix_seconds: now() - 40 * 86400,
    endurance_bytes: 1200 * TIB,
    read_bytes: 3 * TIB + number * GIB,
    written_bytes: 40 * TIB + number * 37 * GIB,
    worn_percent: 3 + number,
    worn_out_unix_seconds: now() + (1100 - number * 31) * 86400,
    error_count: 0,
    mended_block_count: 0,
    steered_read_count: number * 3,
    ...part,
  };
}

export function spaceOf(pool, physical, fullPercent) {
  const usable = physical * (pool.protection === 'dual' ? 0.72 : 0.96);
  const part = (share) => whole(usable * share);
  const space = {
    physical_bytes: physical,
    data_bytes: part((fullPercent / 100) * 0.98 + 0.06),
    metadata_bytes: part(0.012),
    dead_bytes: part(0.055),
    journal_bytes: part(0.004),
    reserve_bytes: part(0.02),
    kept_bytes: part(0.01),
    freed_bytes: part(0.002),
    superblock_bytes: 64 * 2 ** 20,
    parity_bytes: pool.protection === 'dual' ? whole(physical * 0.16) : 0,
    spare_bytes: pool.protection === 'dual' ? whole(physical * 0.11) : 0,
    unusable_bytes: whole(physical * 0.001),
    free_bytes: 0,
  };
  const { physical_bytes, dead_bytes, ...parts } = space;
  space.free_bytes = physical - Object.values(parts).reduce((sum, one) => sum + one, 0);
  return space;
}

function pools() {
  const drives = Array.from({ length: 8 }, (_, number) => drive(number));
  drives[3] = drive(3, { state: 'rebuilding', reason: 'it is given what it lacks', worn_percent: 0, written_bytes: 31 * GIB, worn_out_unix_seconds: null });
  drives[6] = drive(6, { error_count: 3, mended_block_count: 12, worn_percent: 92, worn_out_unix_seconds: now() + 64 * 86400 });
  const main = {
    name: 'main',
    id: 'a11f1a5b'.repeat(4),
    generation: 48211,
    protection: 'dual',
    state: 'degraded',
    reason: 'drive 3 is being rebuilt',
    drives,
    full_percent: 61,
    provisioned_bytes: 14 * TIB,
    scrubbed_unix_seconds: now() - 6 * 86400,
    segment_numbers_percent: 0,
    rebuild: { drive_number: 3, done_bytes: 300 * GIB, total_bytes: 610 * GIB, elapsed_millis: 4_100_000, remaining_millis: 4_300_000 },
    recoverable_bytes: 21 * GIB,
    volumes_at_limit: ['mail'],
  };
  const lab = {
    name: 'lab',
    id: '1ab01ab0'.repeat(4),
    generation: 911,
    protection: 'none',
    state: 'online',
    drives: [drive(0, { path: '/srv/lab.img', size_bytes: 100 * GIB, endurance_bytes: null, worn_percent: null, worn_out_unix_seconds: null })],
    full_percent: 12,
    provisioned_bytes: 256 * GIB,
    scrubbed_unix_seconds: now() - 2 * 86400,
    recoverable_bytes: 0,
    volumes_at_limit: [],
  };
  main.space = spaceOf(main, 8 * TIB, 61);
  lab.space = spaceOf(lab, 100 * GIB, 12);
  return [main, lab];
}

function volume(id, name, part = {}) {
  const roll = dice(id * 7919);
  const size = part.size_bytes ?? [16, 32, 64, 128, 256, 512][Math.floor(roll() * 6)] * GIB;
  const written = whole(size * (0.05 + roll() * 0.7));
  const own = whole(written * (0.2 + roll() * 0.4));
  return {
    id,
    name,
    pool: 'main',
    size_bytes: size,
    written_bytes: written,
    own_bytes: own,
    unique_bytes: whole(own * 0.8),
    compression: 'lz4',
    dedupe: roll() > 0.6,
    profile: 'oltp',
    logical_block_bytes: 4096,
    created_unix_seconds: now() - Math.floor(roll() * 200 * 86400),
    device: null,
    limit_bytes: null,
    reserve_bytes: null,
    origin: null,
    ...part,
  };
}

const on = (database, role) => ({
  role,
  volume: `${database}-${role}`,
  mount: `/var/lib/ashlar/databases/${database}/${role}`,
});

function database(name, port, part = {}) {
  return {
    name,
    port,
    pool: 'main',
    engine: 'postgresql',
    major_version: 17,
    state: 'running',
    created_unix_seconds: now() - 30 * 86400,
    volumes: [on(name, 'data')],
    proofs: [],
    ...part,
  };
}

const proof = (snapshot, agoSeconds, findings = []) => ({
  snapshot,
  proven_unix_seconds: now() - agoSeconds,
  start_millis: 412,
  took_millis: 3120,
  findings,
  notes: [],
});

const stamp = (seconds) => new Date(seconds * 1000).toISOString().replace(/[-:]/g, '').replace(/\.\d+/, '');

function databases(quarter) {
  const snapshot = `prod.${stamp(quarter)}`;
  const older = `prod.${stamp(quarter - 900 * 4)}`;
  return [
    database('prod', 5433, {
      volumes: [on('prod', 'data'), on('prod', 'log')],
      proofs: [proof(snapshot, 520), proof(older, 4120)],
      memory_bytes: 16 * GIB,
      cores: 8,
    }),
    database('dev', 5434, {
      origin: { database: 'prod', snapshot: 'dev.origin' },
      volumes: [on('dev', 'data'), on('dev', 'log')],
      created_unix_seconds: now() - 86400,
    }),
    database('dev-invoices', 5436, {
      origin: { database: 'dev', snapshot: 'dev-invoices.origin' },
      expires_unix_seconds: now() + 5 * 3600,
      created_unix_seconds: now() - 10_000,
    }),
    database('staging', 5435, {
      origin: { database: 'prod', snapshot: 'staging.origin' },
      state: 'stopped',
      proofs: [
        proof('staging.monday', 90_000, ['relation accounts in database postgres, block 3 of file base/5/16384: its checksum is wrong']),
      ],
    }),
    database('billing', 5437, {
      standby: { primary: 'postgres://copier@db1:5432/postgres', slot: 'ashlar_billing', is_streaming: true, lag_bytes: 81920, lag_millis: 240 },
    }),
    database('archive', 5438, {
      state: 'making',
      progress: { stage: 'copying the base backup', done_bytes: 31 * GIB, total_bytes: 96 * GIB },
      created_unix_seconds: now() - 600,
    }),
  ];
}

function snapshots(quarter) {
  const of = (name, volumes, created, part = {}) => ({
    name,
    pool: 'main',
    volumes,
    size_bytes: volumes.length * 128 * GIB,
    created_unix_seconds: created,
    ...part,
  });
  const prod = ['prod-data', 'prod-log'];
  const all = [];
  for (let index = 40; index >= 0; index -= 1) {
    const at = quarter - index * 900;
    all.push(of(`prod.${stamp(at)}`, prod, at));
  }
  all.push(of('dev.origin', prod, now() - 86_400));
  all.push(of('staging.origin', ['prod-data'], now() - 200_000));
  all.push(of('staging.monday', ['staging-data'], now() - 95_000));
  all.push(of('dev-invoices.origin', ['dev-data'], now() - 10_000));
  const reason = 'audit of 2026, ask Maria';
  all.push(of('before-upgrade', prod, now() - 12 * 86400, { hold: { reason, since_unix_seconds: now() - 12 * 86400 } }));
  for (let index = 0; index < 14; index += 1) all.push(of(`docs.day-${String(index).padStart(2, '0')}`, ['docs'], now() - index * 86_400 - 5000));
  return all.sort((left, right) => left.created_unix_seconds - right.created_unix_seconds);
}

function schedules(quarter) {
  const schedule = (name, part) => ({
    name,
    pool: 'main',
    state: 'active',
    databases: [],
    volumes: [],
    every_seconds: 900,
    keep: 'hourly=24,daily=7,weekly=4',
    snapshot_count: 41,
    held_count: 0,
    created_unix_seconds: now() - 30 * 86400,
    next_unix_seconds: quarter + 900,
    last_unix_seconds: quarter,
    ...part,
  });
  return [
    schedule('prod', {
      databases: ['prod'],
      last_snapshot: `prod.${stamp(quarter)}`,
      prove_every_count: 4,
      last_proof: { database: 'prod', is_proven: true, proven_unix_seconds: now() - 520, snapshot: `prod.${stamp(quarter)}` },
    }),
    schedule('undo', { databases: ['prod'], every_seconds: 1, keep: 'seconds=3600', state: 'paused', next_unix_seconds: null, snapshot_count: 0 }),
    schedule('files', {
      volumes: ['docs', 'mail'],
      every_seconds: 86_400,
      keep: 'last=48',
      state: 'failing',
      reason: 'volume mail: its limit refused the snapshot',
      snapshot_count: 14,
      held_count: 1,
    }),
  ];
}

function volumes(count) {
  const owned = ['prod-data', 'prod-log', 'dev-data', 'dev-log', 'dev-invoices-data', 'billing-data'];
  const all = owned.map((name, index) =>
    volume(index + 1, name, { device: `/dev/loop${index}`, size_bytes: name.endsWith('log') ? 32 * GIB : 256 * GIB }),
  );
  all.push(volume(7, 'staging-data', { size_bytes: 256 * GIB }));
  all.push(volume(8, 'archive-data', { device: '/dev/loop6', size_bytes: 512 * GIB }));
  all.push(volume(9, 'docs', { device: '/dev/loop9', size_bytes: 64 * GIB }));
  all.push(volume(10, 'mail', { size_bytes: 128 * GIB, limit_bytes: 40 * GIB }));
  all.push(volume(11, 'bench', { pool: 'lab', size_bytes: 64 * GIB }));
  all.push(volume(12, 'docs-copy', { size_bytes: 64 * GIB, origin: 'docs@docs.day-03' }));
  for (let id = 13; all.length < count; id += 1) all.push(volume(id, `vm-${String(id).padStart(5, '0')}`));
  return all;
}

function events() {
  const made = [];
  const event = (minutes, level, object, message) =>
    made.push({ sequence: made.length + 1, unix_millis: Date.now() - minutes * 60_000, level, object, message });
  event(6000, 'info', 'array', 'ready');
  event(5900, 'info', 'pool main', 'created on 8 drives');
  event(5800, 'info', 'volume prod-data', 'created, 256 GiB');
  for (let index = 0; index < 60; index += 1) event(1000 - index * 15, 'info', 'schedule prod', `took snapshot prod.${index}`);
  event(95, 'error', 'pool main', 'drive 3 was given up: 256 requests failed');
  event(90, 'warning', 'pool main', 'drive 3 was replaced by /dev/nvme3n1: it is being rebuilt');
  event(40, 'warning', 'database staging', 'snapshot staging.monday is NOT proven: 1 finding');
  event(12, 'info', 'database dev-invoices', 'cloned from dev, took 1.1 s');
  event(3, 'info', 'nbd', 'client 12 connected');
  return made;
}

function objective(kind, name, part = {}) {
  const permitted = 604;
  const missed = part.missed_seconds ?? 120;
  return {
    kind,
    name,
    pool: 'main',
    volumes: [kind === 'database' ? `${name}-data` : name],
    p99_micros: 2000,
    for_percent: 99.9,
    requests: 'all',
    over_seconds: 604_800,
    present_p99_micros: 840,
    is_met_now: true,
    met_percent: 100 - missed / 6048,
    covered_seconds: 500_040,
    missed_seconds: missed,
    permitted_seconds: permitted,
    left_seconds: Math.max(0, permitted - missed),
    left_percent: Math.max(0, 100 * (1 - missed / permitted)),
    is_used_up: missed > permitted,
    ...part,
  };
}

function marks() {
  const mark = (id, minutes, text, object) => ({ id: String(id), kind: 'by-hand', unix_millis: Date.now() - minutes * 60_000, text, object });
  return [
    mark(1, 2000, 'version 4.1 goes live', 'database prod'),
    mark(2, 45, 'docs are moved', 'volume docs'),
    mark(3, 2, 'version 4.2 goes live', null),
  ];
}

const EMPTY = { pools: [], databases: [], volumes: [], snapshots: [], schedules: [], objectives: [], marks: [], deleted: [], clients: [], hosts: [], exports: [], users: [], apiTokens: [], audit: [], events: [], jobs: [] };

/// Everything the mock knows. `isEmpty`: an array nobody has used yet.
export function makeWorld({ volumeCount = 40, isEmpty = false } = {}) {
  const quarter = now() - (now() % 900);
  // What a guest is refused; nothing to the owner.
  const refused = [];
  // Who is signed in; a login puts its user here.
  const me = { role: 'admin' };
  const base = { bootId: `boot-${Date.now().toString(36)}`, startedMillis: Date.now() - 6000 * 60_000, refused, me };
  if (isEmpty) return { ...base, ...structuredClone(EMPTY) };
  const all = databases(quarter);
  return {
    ...base,
    pools: pools(),
    databases: all,
    jobs: jobs({ staging: all.find(({ name }) => name === 'staging') }),
    volumes: volumes(volumeCount),
    snapshots: snapshots(quarter),
    schedules: schedules(quarter),
    objectives: [
      objective('database', 'prod'),
      objective('volume', 'mail', { missed_seconds: 900, is_met_now: false, present_p99_micros: 5400 }),
    ],
    marks: marks(),
    deleted: [
      { id: 900, name: 'old-reports', pool: 'main', size_bytes: 64 * GIB, deleted_unix_seconds: now() - 7000, kept_seconds: 7000, remaining_seconds: 79_400, written_bytes: 9 * GIB },
    ],
    clients: [
      { id: 12, door: 'nbd', transport: 'unix', process_id: 4711, program: 'qemu-system-x86', user_id: 0, volume: 'mail', is_read_only: false, in_flight_count: 3, connected_seconds: 8200 },
      { id: 13, door: 'nbd', transport: 'tcp', address: '127.0.0.1:51322', volume: 'bench', is_read_only: true, in_flight_count: 0, connected_seconds: 77 },
      { id: 14, door: 'iscsi', transport: 'tcp', address: '192.0.2.17:41222', initiator: 'iqn.1998-01.com.vmware:esx1-4f2a', target: 'iqn.2026-11.io.ashlar:main-5a80c1d3', is_read_only: false, in_flight_count: 12, connected_seconds: 86_000 },
    ],
    hosts: hosts(),
    exports: exports(),
    users: users(),
    apiTokens: apiTokens(),
    audit: audit(),
    events: events(),
  };
}

export { volume as makeVolume, database as makeDatabase, drive as makeDrive, objective as makeObjective };
