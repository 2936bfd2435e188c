// What can be done with users and tokens.
import { useState } from 'react';
import { api } from '../api/client';
import { leave } from '../api/session';
import type { ApiToken, Role, TokenScope, User } from '../api/types';
import { openDialog } from '../state/dialog';
import { ROLES } from '../state/rights';
import { runTask } from '../state/tasks';
import { Copy } from '../ui/basics';
import { FormDialog, ShowDialog } from '../ui/dialog';
import { Choice, TextInput } from '../ui/fields';
import { plural } from '../ui/format';
import type { Action } from '../ui/menu';

const LETTERS_MIN = 12;
const LETTERS_MAX = 256;

/// Why a text is no password; null: it is one, or empty.
function passwordError(text: string): string | null {
  const count = [...text].length;
  return count > 0 && (count < LETTERS_MIN || count > LETTERS_MAX) ? `${LETTERS_MIN} to ${LETTERS_MAX} letters.` : null;
}

function NewPassword({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <TextInput
      label={label}
      value={value}
      onChange={onChange}
      isSecret
      autoComplete="new-password"
      error={passwordError(value)}
      hint="12 letters at least: several words are good. Only a hash of it is kept."
    />
  );
}

export function CreateUser() {
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('viewer');
  const [password, setPassword] = useState('');
  const run = async () => {
    await api.post('/v1/users', { body: { name, role, password } });
  };
  return (
    <FormDialog
      title="Add a user"
      task={`add user ${name}`}
      submit="Add"
      needs="user_create"
      isIncomplete={name === '' || password === '' || passwordError(password) !== null}
      run={run}
    >
      <TextInput label="Name" value={name} onChange={setName} autoFocus />
      <Choice<Role> label="Role" value={role} onChange={setRole} options={ROLES} />
      <NewPassword label="Password" value={password} onChange={setPassword} />
    </FormDialog>
  );
}

function ChangeRole({ user }: { user: User }) {
  const [role, setRole] = useState<Role>(user.role);
  const run = async () => {
    await api.patch('/v1/users/{user}', { path: { user: user.name }, body: { role } });
  };
  return (
    <FormDialog
      title={`Role of ${user.name}`}
      task={`change the role of ${user.name}`}
      submit="Change"
      isIncomplete={role === user.role}
      run={run}
    >
      <Choice<Role> label="Role" value={role} onChange={setRole} options={ROLES} />
      <p className="note">{sessionsEnd(user)}</p>
    </FormDialog>
  );
}

function ChangePassword({ user }: { user: User }) {
  const [password, setPassword] = useState('');
  const run = async () => {
    await api.patch('/v1/users/{user}', { path: { user: user.name }, body: { password } });
  };
  return (
    <FormDialog
      title={`Password of ${user.name}`}
      task={`change the password of ${user.name}`}
      submit="Change"
      isIncomplete={password === '' || passwordError(password) !== null}
      run={run}
    >
      <NewPassword label="New password" value={password} onChange={setPassword} />
      <p className="note">{sessionsEnd(user)}</p>
    </FormDialog>
  );
}

/// For who is signed in as a user.
export function OwnPassword() {
  const [old, setOld] = useState('');
  const [password, setPassword] = useState('');
  const run = async () => {
    await api.put('/v1/session/password', { body: { password: old, new_password: password } });
    leave();
  };
  return (
    <FormDialog
      title="Your password"
      task="change your password"
      submit="Change"
      isIncomplete={old === '' || password === '' || passwordError(password) !== null}
      run={run}
    >
      <TextInput
        label="The one you have"
        value={old}
        onChange={setOld}
        isSecret
        autoComplete="current-password"
        autoFocus
      />
      <NewPassword label="New password" value={password} onChange={setPassword} />
      <p className="note">All your sessions end, this one too: sign in again with the new one.</p>
    </FormDialog>
  );
}

function DeleteUser({ user }: { user: User }) {
  const run = async () => {
    await api.delete('/v1/users/{user}', { path: { user: user.name } });
  };
  return (
    <FormDialog title={`Delete user ${user.name}`} task={`delete user ${user.name}`} submit="Delete" isDanger run={run}>
      <p className="loss">It cannot sign in any more. {sessionsEnd(user)}</p>
    </FormDialog>
  );
}

function sessionsEnd({ session_count: count }: User): string {
  return count > 0 ? `Its ${plural(count, 'session')} end at once.` : 'It has no session now.';
}

export function userActions(user: User): Action[] {
  const open = (content: React.ReactNode) => () => openDialog(content);
  const set = (is_disabled: boolean) => () =>
    runTask(`${is_disabled ? 'disable' : 'enable'} user ${user.name}`, async () => {
      await api.patch('/v1/users/{user}', { path: { user: user.name }, body: { is_disabled } });
    });
  return [
    { id: 'role', label: 'Change the role…', needs: 'user_change', onAction: open(<ChangeRole user={user} />) },
    { id: 'password', label: 'Set a password…', needs: 'user_change', onAction: open(<ChangePassword user={user} />) },
    user.is_disabled
      ? { id: 'enable', label: 'Let it in again', needs: 'user_change', onAction: set(false) }
      : { id: 'disable', label: 'Keep it out', needs: 'user_change', onAction: set(true) },
    { id: 'delete', label: 'Delete…', isDanger: true, needs: 'user_delete', onAction: open(<DeleteUser user={user} />) },
  ];
}

const DAY = 86_400;
const LIVES = [
  { id: '90', label: '90 days' },
  { id: '365', label: 'A year' },
  { id: '7', label: '7 days' },
  { id: 'never', label: 'Until it is deleted' },
];
const SCOPES: { id: TokenScope | 'all'; label: string; note?: string }[] = [
  { id: 'all', label: 'All that its role may' },
  { id: 'metrics', label: 'Metrics alone', note: '/metrics, /healthz, /readyz' },
  { id: 'snapshots', label: 'Snapshots and clones alone' },
];

export function CreateToken() {
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('viewer');
  const [only, setOnly] = useState<TokenScope | 'all'>('all');
  const [life, setLife] = useState('90');
  const run = async () => {
    const made = await api.post('/v1/tokens', {
      body: {
        name,
        role,
        only: only === 'all' ? null : only,
        expires_after_seconds: life === 'never' ? null : Number(life) * DAY,
      },
    });
    // Behind the end of this dialog.
    window.setTimeout(() => openDialog(<Secret name={name} secret={made.secret} />));
  };
  return (
    <FormDialog
      title="Make a token"
      task={`make token ${name}`}
      submit="Make it"
      needs="token_create"
      isIncomplete={name === ''}
      run={run}
    >
      <TextInput label="Name" value={name} onChange={setName} autoFocus hint="What uses it, as in backup." />
      <Choice<Role> label="Role" value={role} onChange={setRole} options={ROLES} />
      <Choice<TokenScope | 'all'> label="For" value={only} onChange={setOnly} options={SCOPES} />
      <Choice label="Opens the array for" value={life} onChange={setLife} options={LIVES} />
    </FormDialog>
  );
}

function Secret({ name, secret }: { name: string; secret: string }) {
  return (
    <ShowDialog title={`Secret of token ${name}`}>
      <p className="loss">It is shown this once: copy it now. The array keeps only a hash of it.</p>
      <div className="command">
        <code>{secret}</code>
        <Copy text={() => Promise.resolve(secret)} label="Copy the secret" />
      </div>
      <p className="note">
        Programs send it as <code>Authorization: Bearer …</code>; the command line reads it from <code>--token-file</code>.
      </p>
    </ShowDialog>
  );
}

export function tokenActions(token: ApiToken): Action[] {
  const open = () => openDialog(<DeleteToken token={token} />);
  return [{ id: 'delete', label: 'Delete…', isDanger: true, needs: 'token_delete', onAction: open }];
}

function DeleteToken({ token: { name } }: { token: ApiToken }) {
  const run = async () => {
    await api.delete('/v1/tokens/{token}', { path: { token: name } });
  };
  return (
    <FormDialog
      title={`Delete token ${name}`}
      task={`delete token ${name}`}
      submit="Delete"
      isDanger
      needs="token_delete"
      run={run}
    >
      <p className="loss">Whatever shows it is let in no more, at once.</p>
    </FormDialog>
  );
}
