// Users, tokens, and who changed what.
import { useGet } from '../api/resource';
import type { ApiToken, AuditEntry, User } from '../api/types';
import { CreateToken, CreateUser, tokenActions, userActions } from '../dialogs/access';
import { openDialog } from '../state/dialog';
import { denied, refused, who } from '../state/rights';
import { Link } from '../state/router';
import { useStore } from '../state/store';
import { ActionButton, Badge, Empty, Failure, Loading, Notice, Page, Panel, Time } from '../ui/basics';
import { ActionMenu } from '../ui/menu';
import { DataTable, type Column } from '../ui/table';

/// So many of the newest changes are shown.
const AUDIT_LIMIT = 200;

export function Access() {
  useStore(refused);
  const me = useStore(who);
  const refusal = denied('users_list');
  return (
    <Page title="Users and tokens" above={<Link to="/settings">Settings</Link>}>
      {!me && <Loading what="Asking who you are" />}
      {me && refusal && <Notice tone="warn">{refusal}</Notice>}
      {me && !refusal && (
        <>
          <Users />
          <Tokens />
          <Audit />
        </>
      )}
    </Page>
  );
}

function Users() {
  const { data: users, error } = useGet('/v1/users', undefined, 10);
  return (
    <Panel
      title="Users"
      note="People who sign in with a password. Root over the socket needs none."
      aside={
        <ActionButton tone="primary" icon="plus" needs="user_create" onPress={() => openDialog(<CreateUser />)}>
          Add a user
        </ActionButton>
      }
    >
      {error && <Failure error={error} />}
      {!users && !error && <Loading what="Asking for the users" />}
      {users?.length === 0 && <Empty title="There is no user yet" command="ashlar user create ada --role operator" />}
      {users && users.length > 0 && (
        <DataTable label="Users" rows={users} columns={USERS} rowKey={(user) => user.name} />
      )}
    </Panel>
  );
}

const USERS: Column<User>[] = [
  {
    id: 'name',
    title: 'User',
    sort: (user) => user.name,
    render: (user) => <span className="strong">{user.name}</span>,
  },
  { id: 'role', title: 'Role', width: '7rem', sort: (user) => user.role, render: (user) => user.role },
  {
    id: 'state',
    title: 'State',
    width: '8rem',
    render: (user) =>
      user.is_disabled ? <Badge tone="warn">disabled</Badge> : <Badge tone="good">may sign in</Badge>,
  },
  {
    id: 'last',
    title: 'Last sign-in',
    width: '9rem',
    hide: 1,
    sort: (user) => user.last_login_unix_seconds ?? 0,
    render: (user) =>
      user.last_login_unix_seconds ? <Time seconds={user.last_login_unix_seconds} /> : <span className="faint">never</span>,
  },
  {
    id: 'sessions',
    title: 'Sessions',
    isNumber: true,
    width: '6.5rem',
    hide: 1,
    sort: (user) => user.session_count,
    render: (user) => user.session_count,
  },
  {
    id: 'actions',
    title: '',
    width: '3.2rem',
    render: (user) => <ActionMenu of={`user ${user.name}`} actions={() => userActions(user)} />,
  },
];

function Tokens() {
  const { data: tokens, error } = useGet('/v1/tokens', undefined, 10);
  return (
    <Panel
      title="Tokens"
      note="What programs show instead of a password."
      aside={
        <ActionButton icon="plus" needs="token_create" onPress={() => openDialog(<CreateToken />)}>
          Make a token
        </ActionButton>
      }
    >
      {error && <Failure error={error} />}
      {!tokens && !error && <Loading what="Asking for the tokens" />}
      {tokens?.length === 0 && (
        <Empty title="There is no token yet" command="ashlar token create backup --role operator --expires 90d" />
      )}
      {tokens && tokens.length > 0 && (
        <DataTable label="Tokens" rows={tokens} columns={TOKENS} rowKey={(token) => token.name} />
      )}
    </Panel>
  );
}

const TOKENS: Column<ApiToken>[] = [
  {
    id: 'name',
    title: 'Token',
    sort: (token) => token.name,
    render: (token) => (
      <>
        <span className="strong">{token.name}</span>
        <span className="sub">made by {token.created_by}</span>
      </>
    ),
  },
  {
    id: 'role',
    title: 'Role',
    width: '7rem',
    sort: (token) => token.role,
    render: (token) => (
      <>
        {token.role}
        {token.only && <span className="sub">{token.only} alone</span>}
      </>
    ),
  },
  {
    id: 'ends',
    title: 'Ends',
    width: '9rem',
    sort: (token) => token.expires_unix_seconds ?? Number.MAX_SAFE_INTEGER,
    render: (token) =>
      token.is_expired ? (
        <Badge tone="bad">over</Badge>
      ) : token.expires_unix_seconds ? (
        <Time seconds={token.expires_unix_seconds} as="clock" />
      ) : (
        <span className="faint">never</span>
      ),
  },
  {
    id: 'last',
    title: 'Last used',
    width: '9rem',
    hide: 1,
    sort: (token) => token.last_used_unix_seconds ?? 0,
    render: (token) =>
      token.last_used_unix_seconds ? <Time seconds={token.last_used_unix_seconds} /> : <span className="faint">never</span>,
  },
  {
    id: 'actions',
    title: '',
    width: '3.2rem',
    render: (token) => <ActionMenu of={`token ${token.name}`} actions={() => tokenActions(token)} />,
  },
];

function Audit() {
  const query = { limit: AUDIT_LIMIT, order: 'descending' } as const;
  const { data: entries, error } = useGet('/v1/audit', { query }, 10);
  return (
    <Panel title="Who changed what" note={`The newest ${AUDIT_LIMIT} changes, and who was not let in. All are in audit.log.`}>
      {error && <Failure error={error} />}
      {!entries && !error && <Loading what="Asking for the changes" />}
      {entries?.length === 0 && <Empty title="Nothing was changed yet" command="ashlar audit" />}
      {entries && entries.length > 0 && (
        <DataTable label="Changes" rows={entries} columns={AUDIT} rowKey={(entry) => String(entry.sequence)} atFirst={20} />
      )}
    </Panel>
  );
}

const AUDIT: Column<AuditEntry>[] = [
  { id: 'time', title: 'When', width: '9rem', render: (entry) => <Time millis={entry.unix_millis} /> },
  {
    id: 'who',
    title: 'Who',
    hide: 1,
    render: (entry) => (
      <>
        {entry.who}
        <span className="sub">{entry.address ?? 'socket'}</span>
      </>
    ),
  },
  {
    id: 'what',
    title: 'What',
    render: (entry) => (
      <>
        <code>
          {entry.method} {entry.path}
        </code>
        <span className="sub narrow-only">{entry.who}</span>
        {entry.object && (
          <span className="sub">
            {entry.object.kind} {entry.object.name}
          </span>
        )}
      </>
    ),
  },
  {
    id: 'status',
    title: 'End',
    width: '9rem',
    render: (entry) =>
      entry.status < 400 ? (
        <Badge tone="good">done</Badge>
      ) : (
        <>
          <Badge tone="warn">{entry.status < 500 ? 'refused' : 'failed'}</Badge>
          {entry.reason && <span className="sub">{entry.reason}</span>}
        </>
      ),
  },
];
