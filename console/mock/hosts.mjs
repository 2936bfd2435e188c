// Hosts and exports, as the mock answers.
import { busy, found, missing, Refusal } from './refusal.mjs';
import { now } from './world.mjs';

const TARGET = 'iqn.2026-11.io.ashlar:main-5a80c1d3';
const wwn = (lun) => `0x34653919580000${lun.toString(16).padStart(2, '0')}`;
const drop = (list, one) => list.splice(list.indexOf(one), 1);

/// A host without the secret that it was made with.
function hostOf(world, { name, initiator, pool, chap }) {
  if (world.hosts.some((one) => one.name === name)) {
    throw new Refusal(409, 'exists', `there is a host \`${name}\` already`, 'take another name');
  }
  return {
    name,
    pool: pool ?? 'main',
    initiator,
    ...(chap ? { chap_user: chap.user } : {}),
    volumes: [],
    sessions: [],
    created_unix_seconds: now(),
  };
}

export const HOSTS = {
  'GET /v1/hosts': (world) => ({ status: 200, body: world.hosts }),
  'POST /v1/hosts': (world, { body }) => {
    const host = hostOf(world, body);
    world.hosts.push(host);
    return { status: 201, body: host };
  },
  'PATCH /v1/hosts/{host}': (world, { path, body }) => {
    const host = found(world.hosts, path.host, 'host');
    if (body.chap) host.chap_user = body.chap.user;
    if (body.mutual_chap) host.mutual_chap_user = body.mutual_chap.user;
    if (body.without_chap || body.without_mutual_chap) delete host.mutual_chap_user;
    if (body.without_chap) delete host.chap_user;
    return { status: 200, body: host };
  },
  'DELETE /v1/hosts/{host}': (world, { path }) => {
    const host = found(world.hosts, path.host, 'host');
    const holding = world.exports.find((one) => one.hosts.includes(host.name));
    if (holding) {
      throw busy(`the export of volume \`${holding.volume}\` names host \`${host.name}\``, 'delete that first');
    }
    drop(world.hosts, host);
    return { status: 204 };
  },
  'GET /v1/exports': (world) => ({ status: 200, body: world.exports }),
  'POST /v1/exports': (world, { body }) => {
    const { name, pool } = found(world.volumes, body.volume, 'volume');
    const taken = world.exports.map(({ lun }) => lun);
    const lun = [...Array(99).keys()].find((number) => !taken.includes(number));
    const made = {
      volume: name,
      pool,
      target: TARGET,
      lun,
      wwn: wwn(lun),
      block_bytes: body.block_bytes ?? 4096,
      hosts: body.hosts ?? [],
      addresses: ['192.0.2.10:3260'],
      session_count: 0,
      created_unix_seconds: now(),
    };
    world.exports.push(made);
    return { status: 201, body: made };
  },
  'DELETE /v1/exports/{volume}': (world, { path }) => {
    const one = world.exports.find(({ volume }) => volume === path.volume);
    if (!one) throw missing('export', path.volume);
    drop(world.exports, one);
    return { status: 204 };
  },
};

export const hosts = () => [
  {
    name: 'esx1',
    pool: 'main',
    initiator: 'iqn.1998-01.com.vmware:esx1-4f2a',
    chap_user: 'esx1',
    mutual_chap_user: 'array',
    volumes: ['mail', 'vm-00013'],
    sessions: [
      { address: '192.0.2.17:41222', connected_seconds: 86_000, in_flight_count: 12 },
      { address: '198.51.100.17:41224', connected_seconds: 86_000, in_flight_count: 9 },
    ],
    created_unix_seconds: now() - 900_000,
  },
  {
    name: 'build',
    pool: 'main',
    initiator: 'iqn.1993-08.org.debian:01:2f6b9d8a51c',
    volumes: ['vm-00013'],
    sessions: [],
    created_unix_seconds: now() - 90_000,
  },
];

export const exports = () => [
  {
    volume: 'mail',
    pool: 'main',
    target: TARGET,
    lun: 0,
    wwn: wwn(0),
    block_bytes: 512,
    hosts: ['esx1'],
    addresses: ['192.0.2.10:3260', '198.51.100.10:3260'],
    session_count: 2,
    created_unix_seconds: now() - 900_000,
  },
  {
    volume: 'vm-00013',
    pool: 'main',
    target: TARGET,
    lun: 1,
    wwn: wwn(1),
    block_bytes: 4096,
    hosts: [],
    addresses: ['192.0.2.10:3260', '198.51.100.10:3260'],
    session_count: 0,
    created_unix_seconds: now() - 90_000,
  },
];
