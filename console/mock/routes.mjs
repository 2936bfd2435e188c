// What the mock answers: each entry is a method, a path of the API, and what it does to the world.
import { profileOf } from './figures.mjs';
import { ACCESS } from './access.mjs';
import { HOSTS } from './hosts.mjs';
import { JOBS, pause, stopScrub } from './jobs.mjs';
import { PAPER, resultOf } from './lab.mjs';
import { busy, found, missing, Refusal } from './refusal.mjs';
import { makeDrive, makeObjective, makeVolume, now } from './world.mjs';

const drop = (list, one) => list.splice(list.indexOf(one), 1);
const unnamed = (list, name, what) => {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name ?? '')) {
    throw new Refusal(400, 'invalid', `"${name}" is no name`, 'use letters, digits, dots, dashes');
  }
  if (list.some((item) => item.name === name)) {
    throw new Refusal(409, 'exists', `there is a ${what} ${name} already`, 'take another name');
  }
  return name;
};
const ok = (body) => ({ status: 200, body });
const created = (body) => ({ status: 201, body });
const nothing = { status: 204 };

function poolAnswer(world, pool) {
  return {
    ...pool,
    volume_count: world.volumes.filter((one) => one.pool === pool.name).length,
    snapshot_count: world.snapshots.filter((one) => one.pool === pool.name).length,
    deleted_volume_count: world.deleted.filter((one) => one.pool === pool.name).length,
  };
}

function statusOf(world) {
  const attached = world.volumes.filter((one) => one.device).length;
  return {
    version: '0.1.0',
    boot_id: world.bootId,
    process_id: 4242,
    io_driver: 'uring: the kernel allows it',
    state_directory: '/var/lib/ashlar',
    started_unix_millis: world.startedMillis,
    uptime_seconds: Math.floor((Date.now() - world.startedMillis) / 1000),
    cpu_micros: 8_123_456_000,
    memory_resident_bytes: 612 * 2 ** 20,
    attachment_count: attached,
    doors: [
      { name: 'api', transport: 'unix', address: '/var/lib/ashlar/api.sock', state: 'serving', client_count: 1 },
      { name: 'nbd', transport: 'unix', address: '/var/lib/ashlar/nbd.sock', state: 'serving', client_count: world.clients.length },
      { name: 'nbd', transport: 'tcp', address: '127.0.0.1:10809', state: 'off', reason: 'the setting `nbd_tcp` is off' },
      { name: 'iscsi', transport: 'tcp', address: '192.0.2.10:3260', state: 'serving', client_count: 2 },
      { name: 'fuse', transport: 'fuse', address: '/var/lib/ashlar/volumes', state: 'serving', client_count: attached },
    ],
    pools: world.pools.map((pool) => ({
      name: pool.name,
      state: pool.state,
      full_percent: pool.full_percent,
      free_bytes: pool.space.free_bytes,
      physical_bytes: pool.space.physical_bytes,
      volume_count: poolAnswer(world, pool).volume_count,
      snapshot_count: poolAnswer(world, pool).snapshot_count,
    })),
  };
}

function spaceAnswer(world, name) {
  const pool = found(world.pools, name, 'pool');
  const space = pool.space;
  const alive = Math.floor((space.data_bytes - space.dead_bytes) * 0.97);
  const { data_bytes, metadata_bytes, dead_bytes, journal_bytes, ...same } = space;
  const share = (volume) => ({
    name: volume.name,
    provisioned_bytes: volume.size_bytes,
    written_bytes: volume.written_bytes,
    zero_bytes: Math.floor(volume.size_bytes * 0.01),
    unwritten_bytes: volume.size_bytes - volume.written_bytes - Math.floor(volume.size_bytes * 0.01),
    only_bytes: volume.unique_bytes,
    shared_written_bytes: Math.floor(volume.written_bytes * 0.3),
  });
  const volumes = world.volumes.filter((one) => one.pool === name);
  const sharing = Math.floor(alive * 1.4);
  return {
    basis: 'walk',
    pool: name,
    duration_millis: 180,
    provisioned_bytes: pool.provisioned_bytes,
    written_bytes: alive * 3,
    sharing_saved_bytes: sharing,
    content_saved_bytes: Math.floor(alive * 0.35),
    compression_saved_bytes: alive * 2 - sharing,
    shared_bytes: Math.floor(alive * 0.5),
    map_page_bytes: metadata_bytes,
    parts: {
      ...same,
      data_alive_bytes: alive,
      dead_bytes: data_bytes - alive + journal_bytes,
      metadata_alive_bytes: metadata_bytes,
      recent_bytes: 0,
      slack_bytes: 0,
      recoverable_bytes: 0,
      stranded_bytes: 0,
    },
    volumes: volumes.map(share),
    snapshots: [],
    deleted_volumes: [],
  };
}

function usersOf(world, name) {
  const volume = found(world.volumes, name, 'volume');
  const users = [];
  if (volume.device) {
    users.push({ volume: name, kind: 'attachment', who: `attached as ${volume.device}`, action: `ashlar detach ${name}`, path: volume.device });
  }
  for (const client of world.clients.filter((one) => one.volume === name)) {
    const who = client.program ? `${client.program}, process ${client.process_id}` : `a client from ${client.address}`;
    users.push({ volume: name, kind: 'nbd', who, action: `ashlar client disconnect ${client.id}`, client: client.address ?? null });
  }
  return users;
}

function deleteVolume(world, { path, query }) {
  const volume = found(world.volumes, path.volume, 'volume');
  const owner = world.databases.find((one) => one.volumes.some((on) => on.volume === volume.name));
  if (owner) throw busy(`volume ${volume.name} belongs to database ${owner.name}`, `ashlar database delete ${owner.name}`);
  if (volume.device) throw busy(`volume ${volume.name} is attached as ${volume.device}`, `ashlar detach ${volume.name}`);
  drop(world.volumes, volume);
  const seconds = query.now === 'true' ? 0 : 86_400;
  if (seconds > 0) {
    const { id, name, pool, size_bytes, written_bytes } = volume;
    world.deleted.push({ id, name, pool, size_bytes, written_bytes, deleted_unix_seconds: now(), kept_seconds: 0, remaining_seconds: seconds });
  }
  world.say('info', `volume ${volume.name}`, 'deleted');
  return ok({ id: volume.id, name: volume.name, pool: volume.pool, recoverable_seconds: seconds });
}

function createVolume(world, { body }) {
  const name = unnamed(world.volumes, body.name, 'volume');
  const pool = body.pool ?? world.pools[0]?.name;
  found(world.pools, pool, 'pool');
  if (body.size_bytes > 256 * 2 ** 40) {
    throw new Refusal(400, 'invalid', `volume ${name}: ${body.size_bytes} bytes are more than 256 TiB`, 'take a smaller size');
  }
  const { size_bytes, compression = 'lz4', dedupe = false, profile = 'oltp', logical_block_bytes = 4096 } = body;
  const made = { size_bytes, compression, dedupe, profile, logical_block_bytes, pool };
  const fresh = { written_bytes: 0, own_bytes: 0, unique_bytes: 0, created_unix_seconds: now() };
  const volume = makeVolume(Math.max(0, ...world.volumes.map(({ id }) => id)) + 1, name, { ...made, ...fresh });
  world.volumes.push(volume);
  world.say('info', `volume ${name}`, 'created');
  return created(volume);
}

function deleteSnapshots(world, names) {
  const all = names.map((name) => found(world.snapshots, name, 'snapshot'));
  const held = all.find((one) => one.hold);
  if (held) throw busy(`snapshot ${held.name} is held: ${held.hold.reason}`, `ashlar snapshot release ${held.name}`);
  for (const one of all) drop(world.snapshots, one);
  world.say('info', `snapshot ${names[0]}`, 'deleted');
  return nothing;
}

function takeSnapshot(world, name, volumes, part = {}) {
  unnamed(world.snapshots, name, 'snapshot');
  const of = volumes.map((volume) => found(world.volumes, volume, 'volume'));
  const snapshot = {
    name,
    pool: of[0].pool,
    volumes,
    size_bytes: of.reduce((sum, one) => sum + one.size_bytes, 0),
    created_unix_seconds: now(),
    ...part,
  };
  world.snapshots.push(snapshot);
  world.say('info', `snapshot ${name}`, 'taken');
  return snapshot;
}

function readyOf(database, part = {}) {
  const url = `postgres://postgres:secret@127.0.0.1:${database.port}/postgres`;
  return { database, url, took_millis: 1120, start_millis: 402, notes: [], ...part };
}

async function makeDatabase(world, body, origin) {
  const name = unnamed(world.databases, body.name, 'database');
  await pause(world.slowMillis);
  const taken = world.databases.map(({ port }) => port);
  const port = body.port ?? Math.max(5432, ...taken) + 1;
  if (taken.includes(port)) throw busy(`port ${port} is in use`, 'name another port, or none');
  const volume = `${name}-data`;
  world.volumes.push(makeVolume(world.volumes.length + 1000, volume, { device: `/dev/loop${world.volumes.length}` }));
  const database = {
    name,
    port,
    pool: 'main',
    engine: 'postgresql',
    major_version: 17,
    state: 'running',
    created_unix_seconds: now(),
    volumes: [{ role: 'data', volume, mount: `/var/lib/ashlar/databases/${name}/data` }],
    proofs: [],
    origin,
  };
  world.databases.push(database);
  world.say('info', `database ${name}`, origin ? `cloned from ${origin.database}` : 'created');
  return created(readyOf(database));
}

async function verify(world, { path, body }) {
  const database = found(world.databases, path.database, 'database');
  await pause(world.slowMillis);
  const snapshot = body?.snapshot ?? `${database.name}.now`;
  const proof = { snapshot, proven_unix_seconds: now(), start_millis: 390, took_millis: 2900, findings: [], notes: [] };
  database.proofs = [proof, ...database.proofs.filter((one) => one.snapshot !== snapshot)];
  return ok(proof);
}

async function setState(world, name, state) {
  const database = found(world.databases, name, 'database');
  await pause(world.slowMillis);
  database.state = state;
  world.say('info', `database ${name}`, state);
  return database;
}

function driveOf(world, { pool: name, number }) {
  const pool = found(world.pools, name, 'pool');
  const drive = pool.drives.find((one) => one.number === Number(number));
  if (!drive) throw missing('drive', number);
  return { pool, drive };
}

async function replaceDrive(world, { path, body }) {
  const { pool, drive } = driveOf(world, path);
  await pause(world.slowMillis);
  if (body.path === '/dev/full') {
    throw busy(`${body.path} holds an ext4 file system`, 'take another drive, or say that what it holds may be lost');
  }
  pool.drives[pool.drives.indexOf(drive)] = makeDrive(drive.number, { path: body.path, state: 'rebuilding', worn_percent: 0 });
  pool.state = 'degraded';
  pool.reason = `drive ${drive.number} is being rebuilt`;
  pool.rebuild = { drive_number: drive.number, done_bytes: 0, total_bytes: 40 * 2 ** 30, elapsed_millis: 0, remaining_millis: 20_000 };
  world.say('warning', `pool ${pool.name}`, `drive ${drive.number} is replaced by ${body.path}`);
  return ok(poolAnswer(world, pool));
}

const DATABASES = {
  'GET /v1/databases': (world) => ok(world.databases),
  'POST /v1/databases': (world, { body }) => makeDatabase(world, body),
  'GET /v1/databases/{database}': (world, { path }) => ok(found(world.databases, path.database, 'database')),
  'DELETE /v1/databases/{database}': async (world, { path }) => {
    const database = found(world.databases, path.database, 'database');
    await pause(world.slowMillis);
    drop(world.databases, database);
    const volumes = database.volumes.map(({ volume }) => volume);
    world.volumes = world.volumes.filter(({ name }) => !volumes.includes(name));
    return ok({ name: database.name, volumes, clones: [], recoverable_seconds: 86_400, notes: [] });
  },
  'GET /v1/databases/{database}/waits': (world, { path }) => ok({
    name: found(world.databases, path.database, 'database').name,
    look_count: 100,
    session_count: 6.4,
    waits: [
      { event: 'LWLock:WALWrite', cause: 'storage', session_count: 2.9 },
      { event: 'CPU:Running', cause: 'processor', session_count: 1.8 },
      { event: 'IO:WALSync', cause: 'storage', session_count: 1.0 },
      { event: 'Lock:transactionid', cause: 'locks', session_count: 0.7 },
    ],
  }),
  'GET /v1/databases/{database}/url': (world, { path }) =>
    ok({ url: readyOf(found(world.databases, path.database, 'database')).url }),
  'POST /v1/databases/{database}/clone': (world, { path, body }) => {
    const source = found(world.databases, path.database, 'database');
    return makeDatabase(world, body, { database: source.name, snapshot: body.snapshot ?? `${body.name}.origin` });
  },
  'POST /v1/databases/{database}/reset': async (world, { path }) =>
    ok(readyOf(await setState(world, path.database, 'running'))),
  'POST /v1/databases/{database}/restore': async (world, { path, body }) => {
    found(world.snapshots, body.snapshot, 'snapshot');
    const database = await setState(world, path.database, 'running');
    return ok(readyOf(database, { restored: body.snapshot, backup: `${database.name}.before` }));
  },
  'POST /v1/databases/{database}/start': async (world, { path }) =>
    ok(readyOf(await setState(world, path.database, 'running'))),
  'POST /v1/databases/{database}/stop': async (world, { path }) => ok(await setState(world, path.database, 'stopped')),
  'POST /v1/databases/{database}/verify': verify,
  'PUT /v1/databases/{database}/expiry': (world, { path, body }) => {
    const database = found(world.databases, path.database, 'database');
    const after = body.expires_after_seconds;
    database.expires_unix_seconds = after ? now() + after : null;
    return ok(database);
  },
  'POST /v1/database-snapshots': (world, { body }) => {
    const volumes = body.databases.flatMap((name) =>
      found(world.databases, name, 'database').volumes.map(({ volume }) => volume),
    );
    return created(takeSnapshot(world, body.name, volumes));
  },
};

const VOLUMES = {
  'GET /v1/volumes': (world) => ok(world.volumes),
  'POST /v1/volumes': createVolume,
  'GET /v1/volumes/{volume}': (world, { path }) => ok(found(world.volumes, path.volume, 'volume')),
  'DELETE /v1/volumes/{volume}': deleteVolume,
  'PATCH /v1/volumes/{volume}': (world, { path, body }) => {
    const volume = found(world.volumes, path.volume, 'volume');
    volume.size_bytes = body.size_bytes;
    return ok(volume);
  },
  'PUT /v1/volumes/{volume}/policy': (world, { path, body }) => {
    const volume = found(world.volumes, path.volume, 'volume');
    for (const [name, value] of Object.entries(body)) volume[name] = value === 0 ? null : value;
    return ok(volume);
  },
  'GET /v1/volumes/{volume}/profile': (world, { path, query }) =>
    ok(profileOf(found(world.volumes, path.volume, 'volume'), query.seconds)),
  'GET /v1/volumes/{volume}/users': (world, { path }) => ok(usersOf(world, path.volume)),
  'POST /v1/volumes/{volume}/disconnect': (world, { path }) => {
    const cut = usersOf(world, path.volume).filter(({ kind }) => kind === 'nbd');
    world.clients = world.clients.filter((one) => one.volume !== path.volume);
    return ok({ cut, remaining: usersOf(world, path.volume) });
  },
  'GET /v1/deleted-volumes': (world) => ok(world.deleted),
  'POST /v1/deleted-volumes/{volume}/undelete': (world, { path }) => {
    const deleted = world.deleted.find((one) => [one.name, `${one.name}:${one.id}`].includes(path.volume));
    if (!deleted) throw missing('deleted volume', path.volume);
    drop(world.deleted, deleted);
    const volume = makeVolume(deleted.id, deleted.name, { size_bytes: deleted.size_bytes });
    world.volumes.push(volume);
    return ok(volume);
  },
  'POST /v1/clones': (world, { body }) => {
    const name = unnamed(world.volumes, body.name, 'volume');
    const volume = makeVolume(world.volumes.length + 2000, name, { origin: body.from, own_bytes: 0, unique_bytes: 0 });
    world.volumes.push(volume);
    return created([volume]);
  },
  'GET /v1/attachments': (world) =>
    ok(
      world.volumes
        .filter((one) => one.device)
        .map(({ name, device }) => ({ volume: name, device, mount: name === 'docs' ? '/srv/docs' : null, outlives: 'crash' })),
    ),
  'POST /v1/attachments': (world, { body }) => {
    const volume = found(world.volumes, body.volume, 'volume');
    volume.device = '/dev/loop77';
    return created({ volume: volume.name, device: volume.device, mount: body.mount ?? null, outlives: 'crash' });
  },
  'DELETE /v1/attachments/{volume}': (world, { path }) => {
    found(world.volumes, path.volume, 'volume').device = null;
    return nothing;
  },
};

const LAB = {
  'GET /v1/lab-results': (world) => ok(world.pools.length > 0 ? [PAPER] : []),
  'GET /v1/lab-results/{result}': (_world, { path, query }) => {
    const result = resultOf(path.result, query.part);
    if (!result) throw missing('lab result', path.result);
    return ok(result);
  },
  'GET /v1/lab-results/{result}/report': (_world, { path, query }) => {
    if (!resultOf(path.result, query.part)) throw missing('lab result', path.result);
    return ok('<!doctype html><title>report</title>');
  },
};

const SNAPSHOTS = {
  'GET /v1/snapshots': (world) => ok(world.snapshots),
  'POST /v1/snapshots': (world, { body }) => created(takeSnapshot(world, body.name, body.volumes)),
  'GET /v1/snapshots/{snapshot}': (world, { path }) => ok(found(world.snapshots, path.snapshot, 'snapshot')),
  'DELETE /v1/snapshots/{snapshot}': (world, { path }) => deleteSnapshots(world, [path.snapshot]),
  'POST /v1/snapshot-deletions': (world, { body }) => deleteSnapshots(world, body.names),
  'PUT /v1/snapshots/{snapshot}/hold': (world, { path, body }) => {
    const snapshot = found(world.snapshots, path.snapshot, 'snapshot');
    snapshot.hold = { reason: body?.reason ?? '', since_unix_seconds: now() };
    return ok(snapshot);
  },
  'DELETE /v1/snapshots/{snapshot}/hold': (world, { path }) => {
    const snapshot = found(world.snapshots, path.snapshot, 'snapshot');
    delete snapshot.hold;
    return ok(snapshot);
  },
  'POST /v1/snapshots/{snapshot}/restore': (world, { path }) => {
    const snapshot = found(world.snapshots, path.snapshot, 'snapshot');
    const attached = world.volumes.find((one) => one.device && snapshot.volumes.includes(one.name));
    if (attached) throw busy(`volume ${attached.name} is attached as ${attached.device}`, `ashlar detach ${attached.name}`);
    return ok({ snapshot: snapshot.name, volumes: snapshot.volumes, backup: `${snapshot.name}.before` });
  },
  'POST /v1/space/reclaim': (world, { body }) => {
    const names = body.names.map((name) => name.replace(/^\w+:/, ''));
    const members = names.map((name) => found([...world.snapshots, ...world.volumes], name, 'snapshot'));
    const held = members.filter((one) => one.hold).map(({ name }) => name);
    const bytes = names.reduce((sum, name) => sum + (name.length % 7) * 2 ** 28, 2 ** 26);
    return ok({
      members: names,
      held,
      chunk_bytes: bytes,
      chunk_count: Math.floor(bytes / 16384),
      kept_bytes: bytes * 5,
      map_page_bytes: 1 << 20,
      map_page_count: 256,
      duration_millis: 12,
    });
  },
  'GET /v1/schedules': (world) => ok(world.schedules),
  'POST /v1/schedules': (world, { body }) => {
    const name = unnamed(world.schedules, body.name, 'schedule');
    const every = body.every_seconds;
    const schedule = {
      name,
      pool: 'main',
      state: 'active',
      databases: body.databases ?? [],
      volumes: body.volumes ?? [],
      every_seconds: every,
      keep: body.keep,
      snapshot_count: 0,
      held_count: 0,
      created_unix_seconds: now(),
      next_unix_seconds: now() - (now() % every) + every,
    };
    world.schedules.push(schedule);
    return created(schedule);
  },
  'GET /v1/schedules/{schedule}': (world, { path }) => ok(found(world.schedules, path.schedule, 'schedule')),
  'DELETE /v1/schedules/{schedule}': (world, { path }) => {
    const schedule = found(world.schedules, path.schedule, 'schedule');
    drop(world.schedules, schedule);
    return ok({ name: schedule.name, deleted_count: 0, left_count: schedule.snapshot_count });
  },
  'POST /v1/schedules/{schedule}/pause': (world, { path }) => {
    const schedule = found(world.schedules, path.schedule, 'schedule');
    return ok(Object.assign(schedule, { state: 'paused', next_unix_seconds: null }));
  },
  'POST /v1/schedules/{schedule}/resume': (world, { path }) => {
    const schedule = found(world.schedules, path.schedule, 'schedule');
    return ok(Object.assign(schedule, { state: 'active', next_unix_seconds: now() + schedule.every_seconds }));
  },
  'POST /v1/schedules/{schedule}/run': (world, { path }) => {
    const { name, databases, volumes } = found(world.schedules, path.schedule, 'schedule');
    const of = databases.flatMap((one) => found(world.databases, one, 'database').volumes.map(({ volume }) => volume));
    return created(takeSnapshot(world, `${name}.${Date.now()}`, [...of, ...volumes]));
  },
};

const POOLS = {
  'GET /v1/pools': (world) => ok(world.pools.map((pool) => poolAnswer(world, pool))),
  'GET /v1/pools/{pool}': (world, { path }) => ok(poolAnswer(world, found(world.pools, path.pool, 'pool'))),
  'GET /v1/pools/{pool}/space': (world, { path }) => ok(spaceAnswer(world, path.pool)),
  'POST /v1/pools/{pool}/drives/{number}/offline': (world, { path }) => {
    const { pool, drive } = driveOf(world, path);
    if (pool.protection === 'none') throw busy(`pool ${pool.name} cannot do without drive ${drive.number}`, 'add a drive first');
    Object.assign(drive, { state: 'out', reason: 'somebody took it out of service' });
    Object.assign(pool, { state: 'degraded', reason: `drive ${drive.number} is out of service` });
    world.say('warning', `pool ${pool.name}`, `drive ${drive.number} was taken out of service`);
    return ok(poolAnswer(world, pool));
  },
  'POST /v1/pools/{pool}/drives/{number}/online': (world, { path }) => {
    const { pool, drive } = driveOf(world, path);
    Object.assign(drive, { state: 'rebuilding', reason: null });
    pool.rebuild = { drive_number: drive.number, done_bytes: 0, total_bytes: 2 ** 34, elapsed_millis: 0, remaining_millis: 9000 };
    return ok(poolAnswer(world, pool));
  },
  'POST /v1/pools/{pool}/drives/{number}/replace': replaceDrive,
  'PATCH /v1/pools/{pool}/drives/{number}': (world, { path, body }) => {
    const { pool, drive } = driveOf(world, path);
    drive.endurance_bytes = body.endurance_bytes;
    return ok(poolAnswer(world, pool));
  },
  'DELETE /v1/pools/{pool}/drives/{number}': (world, { path }) => {
    const { pool, drive } = driveOf(world, path);
    drive.state = 'moving';
    pool.removal = { drive_number: drive.number, done_bytes: 0, total_bytes: 2 ** 38, elapsed_millis: 1, remaining_millis: 600_000 };
    return ok(poolAnswer(world, pool));
  },
  'POST /v1/pools/{pool}/drives': (world, { path, body }) => {
    const pool = found(world.pools, path.pool, 'pool');
    for (const one of body.drives) pool.drives.push(makeDrive(pool.drives.length, { path: one.path }));
    return ok(poolAnswer(world, pool));
  },
  'PATCH /v1/pools/{pool}/scrub': (world, { path, body }) => {
    const pool = found(world.pools, path.pool, 'pool');
    if (!pool.scrub) throw new Refusal(404, 'not-found', `no scrub of pool ${pool.name} is under way`, 'start one');
    if (body.action === 'stop') stopScrub(world, pool);
    else pool.scrub.is_paused = body.action === 'pause';
    return ok(poolAnswer(world, pool));
  },
};

/// Those by hand, and those made of snapshots and events, the oldest first.
function marksOf(world, { volume, since_unix_millis: since = 0 }) {
  const ofSnapshot = ({ name, volumes, created_unix_seconds: seconds }) => ({
    volumes,
    mark: { id: `snapshot:${name}`, kind: 'snapshot', unix_millis: seconds * 1000, text: `snapshot ${name}`, object: `snapshot ${name}` },
  });
  const ofEvent = ({ sequence, unix_millis, level, object, message }) => ({
    mark: { id: `event:${sequence}`, kind: 'event', unix_millis, level, object, text: `${object}: ${message}` },
  });
  const volumesOf = (object) => {
    const [kind, name] = (object ?? '').split(' ');
    if (kind === 'volume') return [name];
    return kind === 'database' ? world.databases.find((one) => one.name === name)?.volumes.map((on) => on.volume) ?? [] : undefined;
  };
  const all = [
    ...world.marks.map((mark) => ({ mark })),
    ...world.snapshots.map(ofSnapshot),
    ...world.events.filter(({ level }) => level !== 'info').map(ofEvent),
  ];
  return all
    .filter(({ mark, volumes = volumesOf(mark.object) }) => !volume || !volumes || volumes.includes(volume))
    .map(({ mark }) => mark)
    .filter(({ unix_millis }) => unix_millis >= Number(since))
    .sort((left, right) => left.unix_millis - right.unix_millis);
}

const TIME_LINE = {
  'GET /v1/marks': (world, { query }) => ok(marksOf(world, query)),
  'GET /v1/objectives': (world) => ok(world.objectives),
  'PUT /v1/objectives/{objective}': (world, { path, body }) => {
    const name = path.objective;
    const known = world.objectives.find((one) => one.name === name);
    if (known) return ok(Object.assign(known, body));
    const kind = world.databases.some((one) => one.name === name) ? 'database' : 'volume';
    if (kind === 'volume') found(world.volumes, name, 'volume');
    const made = makeObjective(kind, name, { ...body, missed_seconds: 0 });
    world.objectives.push(made);
    return created(made);
  },
  'DELETE /v1/objectives/{objective}': (world, { path }) => {
    drop(world.objectives, found(world.objectives, path.objective, 'objective'));
    return nothing;
  },
};

const OTHERS = {
  'GET /v1/status': (world) => ok(statusOf(world)),
  'GET /v1/settings': () =>
    ok({
      file: '/etc/ashlar/ashlar.toml',
      settings: [{ name: 'deleted_volumes_hours', value: '24', is_default: true, is_reloadable: true }],
    }),
  'GET /v1/session': (world) =>
    ok({
      caller: world.me.caller ?? (world.refused.length > 0 ? 'guest' : 'owner'),
      role: world.me.role,
      ...(world.me.user ? { user: world.me.user } : {}),
      refused_operations: world.refused,
      boot_id: world.bootId,
    }),
  'GET /v1/health': () => ok({ answer_micros: 41 }),
  'GET /v1/events': (world, { query }) => ok(world.events.filter((one) => one.sequence > Number(query.after ?? 0))),
  'GET /v1/clients': (world) => ok(world.clients),
  'DELETE /v1/clients/{client}': (world, { path }) => {
    const client = world.clients.find((one) => String(one.id) === path.client);
    if (!client) throw missing('client', path.client);
    drop(world.clients, client);
    return nothing;
  },
  'GET /v1/io': (world) =>
    ok(
      world.volumes.slice(0, 12).map((volume) => ({
        volume: volume.name,
        door: volume.device ? 'fuse' : 'nbd',
        operations: ['read', 'write', 'flush'].map((operation, index) => ({
          operation,
          count: 900_000 - index * 300_000 + volume.id,
          bytes: (900_000 - index * 300_000) * 8192,
          errors: 0,
          latency_micros_max: 91_000,
          latency_micros_p50: 180,
          latency_micros_p99: 1400,
        })),
      })),
    ),
};

const ALL = { ...DATABASES, ...VOLUMES, ...LAB, ...SNAPSHOTS, ...POOLS, ...TIME_LINE, ...JOBS, ...HOSTS, ...ACCESS, ...OTHERS };

/// Each route with the pattern of its path.
export const routes = Object.entries(ALL).map(([key, run]) => {
  const [method, template] = key.split(' ');
  const names = [...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const pattern = new RegExp(`^${template.replace(/\{\w+\}/g, '([^/]+)')}$`);
  return { method, template, names, pattern, run };
});
