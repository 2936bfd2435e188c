// Users, tokens and logins, as the mock answers.
import { found, Refusal } from './refusal.mjs';
import { now } from './world.mjs';

const drop = (list, one) => list.splice(list.indexOf(one), 1);
const taken = (what, name) => new Refusal(409, 'exists', `${what} \`${name}\` exists`, 'choose another name');
export const PASSWORD = 'correct horse battery';

export const ACCESS = {
  'GET /v1/users': (world) => ({ status: 200, body: world.users }),
  'POST /v1/users': (world, { body: { name, role } }) => {
    if (world.users.some((one) => one.name === name)) throw taken('user', name);
    const user = { name, role, is_disabled: false, created_unix_seconds: now(), password_set_unix_seconds: now(), session_count: 0 };
    world.users.push(user);
    return { status: 201, body: user };
  },
  'PATCH /v1/users/{user}': (world, { path, body: { role, is_disabled } }) => {
    const user = found(world.users, path.user, 'user');
    Object.assign(user, { role: role ?? user.role, is_disabled: is_disabled ?? user.is_disabled, session_count: 0 });
    return { status: 200, body: user };
  },
  'DELETE /v1/users/{user}': (world, { path }) => {
    drop(world.users, found(world.users, path.user, 'user'));
    return { status: 204 };
  },
  'GET /v1/tokens': (world) => ({ status: 200, body: world.apiTokens }),
  'POST /v1/tokens': (world, { body: { name, role, only, expires_after_seconds: seconds } }) => {
    if (world.apiTokens.some((one) => one.name === name)) throw taken('token', name);
    const token = { name, role, created_unix_seconds: now(), created_by: 'uid 0', is_expired: false };
    if (only) token.only = only;
    if (seconds) token.expires_unix_seconds = now() + seconds;
    world.apiTokens.push(token);
    return { status: 201, body: { token, secret: `ashlar_${'5f'.repeat(32)}` } };
  },
  'DELETE /v1/tokens/{token}': (world, { path }) => {
    drop(world.apiTokens, found(world.apiTokens, path.token, 'token'));
    return { status: 204 };
  },
  'PUT /v1/session/password': (world, { body }) => {
    if (body.password !== PASSWORD) throw wrongLogin();
    return { status: 204 };
  },
  'GET /v1/audit': (world) => ({ status: 200, body: world.audit }),
};

export const wrongLogin = () =>
  new Refusal(401, 'unauthorized', 'the user or the password is wrong, or the user is disabled', 'look at both', 'wrong-login');

export const users = () => [
  {
    name: 'ada',
    role: 'admin',
    is_disabled: false,
    created_unix_seconds: now() - 900_000,
    password_set_unix_seconds: now() - 90_000,
    last_login_unix_seconds: now() - 300,
    session_count: 1,
  },
  {
    name: 'bob',
    role: 'viewer',
    is_disabled: true,
    created_unix_seconds: now() - 800_000,
    password_set_unix_seconds: now() - 800_000,
    session_count: 0,
  },
];

export const apiTokens = () => [
  {
    name: 'prometheus',
    role: 'viewer',
    only: 'metrics',
    created_unix_seconds: now() - 700_000,
    created_by: 'user ada',
    is_expired: false,
    last_used_unix_seconds: now() - 20,
  },
  {
    name: 'old-backup',
    role: 'operator',
    created_unix_seconds: now() - 9_000_000,
    created_by: 'uid 0',
    expires_unix_seconds: now() - 1_000_000,
    is_expired: true,
  },
];

export const audit = () => [
  {
    sequence: 912,
    unix_millis: Date.now() - 60_000,
    who: 'user ada',
    address: '192.0.2.17:41222',
    method: 'DELETE',
    path: '/v1/volumes/scratch?force=false&now=false',
    object: { kind: 'volume', name: 'scratch' },
    status: 200,
  },
  {
    sequence: 911,
    unix_millis: Date.now() - 90_000,
    who: 'nobody',
    address: '198.51.100.9:50112',
    method: 'POST',
    path: '/v1/sessions',
    object: { kind: 'user', name: 'ada' },
    status: 401,
    reason: 'wrong-login',
  },
];
