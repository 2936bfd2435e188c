// One database: where it is, what it is on, its snapshots with their proofs, its clones.
import { useState } from 'react';
import { api } from '../api/client';
import { asError, type ApiError } from '../api/error';
import { useGet } from '../api/resource';
import type { Database, Snapshot } from '../api/types';
import {
  busyWith,
  CloneDatabase,
  databaseActions,
  followsAnother,
  ProveDatabase,
  RestoreDatabase,
  snapshotsOf,
} from '../dialogs/database';
import { snapshotActions } from '../dialogs/snapshot';
import { openDialog } from '../state/dialog';
import { denied, refused } from '../state/rights';
import { Link, to } from '../state/router';
import { useStore } from '../state/store';
import { ActionButton, Bytes, Copy, Empty, Facts, Failure, Loading, Notice, Page, Panel, Progress, Time } from '../ui/basics';
import { bytes, duration } from '../ui/format';
import { ActionMenu, type Action } from '../ui/menu';
import { Performance, RangeTabs } from '../ui/performance';
import { DataTable, type Column } from '../ui/table';
import { ObjectivePanel } from './objective';
import { DatabaseBadge, Proof } from './states';
import { Waits } from './waits';

const UP_FRONT = ['clone', 'snapshot', 'prove'];

export function DatabasePage({ name }: { name: string }) {
  const { data: all, error } = useGet('/v1/databases', undefined, 5);
  const snapshots = useGet('/v1/snapshots').data ?? [];
  useStore(refused);
  const above = <Link to="/databases">Databases</Link>;
  const database = all?.find((one) => one.name === name);
  if (!all || !database) {
    return (
      <Page title={name} above={above}>
        {error && <Failure error={error} />}
        {!error && !all && <Loading what={`Asking for database ${name}`} />}
        {all && <Empty title={`There is no database ${name}`}>It may have been deleted or have another name.</Empty>}
      </Page>
    );
  }
  const actions = databaseActions(database, { all, snapshots });
  return (
    <Page
      title={database.name}
      above={above}
      lead={<DatabaseBadge database={database} />}
      actions={
        <>
          {actions
            .filter(({ id }) => UP_FRONT.includes(id))
            .map((action) => (
              <ActionButton
                key={action.id}
                needs={action.needs}
                refusal={action.refusal}
                onPress={action.onAction}
                tone={action.id === 'clone' ? 'primary' : undefined}
              >
                {action.label}
              </ActionButton>
            ))}
          <ActionMenu of={`database ${name}`} actions={() => actions.filter(({ id }) => !UP_FRONT.includes(id))}>
            More
          </ActionMenu>
        </>
      }
    >
      <Under database={database} />
      <Overview database={database} all={all} />
      <Panel title="Performance" note={`Volume ${database.volumes[0]?.volume}`} aside={<RangeTabs />}>
        {database.volumes[0] && <Performance object={`volume:${database.volumes[0].volume}`} />}
      </Panel>
      <ObjectivePanel kind="database" name={name} />
      <Waits name={name} isRunning={database.state === 'running'} />
      <Snapshots database={database} own={snapshotsOf(database, snapshots)} />
      <VolumesOf database={database} />
    </Page>
  );
}

function Under({ database }: { database: Database }) {
  const { away, name, progress, standby, state } = database;
  return (
    <>
      {progress && (
        <Panel>
          <Progress
            label={progress.stage}
            share={progress.total_bytes > 0 ? progress.done_bytes / progress.total_bytes : undefined}
            text={progress.total_bytes > 0 ? `${bytes(progress.done_bytes)} of ${bytes(progress.total_bytes)}` : undefined}
          />
        </Panel>
      )}
      {standby && (
        <Notice tone={standby.is_streaming === false ? 'warn' : 'busy'}>
          Standby of {standby.primary}: {standby.is_streaming === false ? 'does not hear it, ' : ''}
          {bytes(standby.lag_bytes)} and {duration((standby.lag_millis ?? 0) / 1000)} behind. Promote it by{' '}
          <code>ashlar database promote {database.name}</code>.
        </Notice>
      )}
      {away && (
        <Notice tone="busy">
          Host {away.host} has its volumes since <Time seconds={away.since_unix_seconds} />. What that machine runs tells{' '}
          <code>ashlar database handover {name}</code>; <code>ashlar database return {name}</code> takes it back.
        </Notice>
      )}
      {state === 'failed' && (
        <Notice tone="bad">
          Its server failed. Start it; if it fails again its log tells why, in the directory of its server.
        </Notice>
      )}
    </>
  );
}

function Overview({ database, all }: { database: Database; all: Database[] }) {
  const clones = all.filter((one) => one.origin?.database === database.name);
  const { origin, expires_unix_seconds: expires, memory_bytes: memory, cores } = database;
  const linked = (name: string) => <Link to={to.database(name)}>{name}</Link>;
  return (
    <Panel title="Where it is">
      <Connection name={database.name} port={database.port} />
      <Facts
        of={[
          ['Server', `PostgreSQL ${database.major_version}`],
          ['Listens on', `127.0.0.1${database.away ? ` of ${database.away.host}` : ''}, port ${database.port}`],
          ['Pool', database.pool],
          ['Created', <Time seconds={database.created_unix_seconds} />],
          [
            'Cloned from',
            origin ? (
              <>
                {linked(origin.database)}, snapshot {origin.snapshot}
              </>
            ) : (
              'no other'
            ),
          ],
          [
            'Clones',
            clones.length === 0
              ? 'none'
              : clones.map((clone, index) => (
                  <span key={clone.name}>
                    {index > 0 && ', '}
                    {linked(clone.name)}
                  </span>
                )),
          ],
          ['Deleted by itself', expires ? <Time seconds={expires} /> : 'never'],
          ['Limits', `memory ${memory ? bytes(memory) : 'all'}, processors ${cores ?? 'all'}`],
        ]}
      />
    </Panel>
  );
}

/// The connection string holds a password: it is fetched when somebody wants it, and shown only then.
function Connection({ name, port }: { name: string; port: number }) {
  const [url, setUrl] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const fetchUrl = async (): Promise<string> => {
    setError(null);
    try {
      return (await api.get('/v1/databases/{database}/url', { path: { database: name } })).url;
    } catch (thrown) {
      setError(asError(thrown));
      throw thrown;
    }
  };
  const refusal = denied('database_url');
  const show = () => (url ? setUrl(null) : void fetchUrl().then(setUrl, () => undefined));
  return (
    <>
      <div className="command">
        <code>{url ?? `postgres://…:••••••••@127.0.0.1:${port}/…`}</code>
        <ActionButton tone="quiet" refusal={refusal} onPress={show}>
          {url ? 'Hide' : 'Show'}
        </ActionButton>
        {!refusal && <Copy text={fetchUrl} label="Copy the connection string" />}
      </div>
      {error && <Failure title="No connection string" error={error} />}
    </>
  );
}

function Snapshots({ database, own }: { database: Database; own: Snapshot[] }) {
  const proofs = new Map((database.proofs ?? []).map((proof) => [proof.snapshot, proof]));
  const menu = (snapshot: Snapshot): Action[] => {
    const same = { database, snapshots: own, at: snapshot.name };
    const others = snapshotActions(snapshot, []).filter(({ id }) => id !== 'clone' && id !== 'restore');
    const busy = busyWith(database);
    return [
      {
        id: 'clone',
        label: 'Clone…',
        refusal: denied('database_clone') ?? busy,
        onAction: () => openDialog(<CloneDatabase {...same} />),
      },
      {
        id: 'prove',
        label: 'Prove…',
        refusal: denied('database_verify') ?? busy,
        onAction: () => openDialog(<ProveDatabase {...same} />),
      },
      {
        id: 'restore',
        label: 'Restore…',
        isDanger: true,
        refusal: denied('database_restore') ?? followsAnother(database) ?? busy,
        onAction: () => openDialog(<RestoreDatabase {...same} />),
      },
      ...others,
    ];
  };
  const columns: Column<Snapshot>[] = [
    {
      id: 'name',
      title: 'Snapshot',
      sort: (one) => one.name,
      render: (one) => (
        <>
          {one.name}
          {one.hold && <span className="sub">held{one.hold.reason && `: ${one.hold.reason}`}</span>}
        </>
      ),
    },
    {
      id: 'age',
      title: 'Taken',
      width: '9rem',
      sort: (one) => one.created_unix_seconds,
      render: (one) => <Time seconds={one.created_unix_seconds} />,
    },
    {
      id: 'proof',
      title: 'Proof',
      hide: 1,
      sort: (one) => proofs.get(one.name)?.proven_unix_seconds ?? 0,
      render: (one) => <Proof proof={proofs.get(one.name)} />,
    },
    {
      id: 'menu',
      title: '',
      width: '3.2rem',
      render: (one) => <ActionMenu of={`snapshot ${one.name}`} actions={() => menu(one)} />,
    },
  ];
  const failed = (database.proofs ?? []).filter((proof) => proof.findings.length > 0);
  return (
    <Panel title="Snapshots" note="A proof starts a server on the snapshot and checks every table, index and page.">
      {failed.map((proof) => (
        <Notice key={proof.snapshot} tone="bad">
          {proof.snapshot} is NOT proven:
          <ul>
            {proof.findings.map((finding) => (
              <li key={finding}>{finding}</li>
            ))}
          </ul>
        </Notice>
      ))}
      {own.length === 0 ? (
        <Empty
          title="No snapshot yet"
          command={`ashlar schedule create ${database.name} --of ${database.name} --every 15m --keep hourly=24,daily=7`}
        >
          A schedule takes them by the clock.
        </Empty>
      ) : (
        <DataTable
          label={`Snapshots of ${database.name}`}
          rows={own}
          columns={columns}
          rowKey={(one) => one.name}
          order={{ id: 'age', isDown: true }}
          atFirst={12}
        />
      )}
    </Panel>
  );
}

function VolumesOf({ database }: { database: Database }) {
  const volumes = useGet('/v1/volumes').data ?? [];
  const of = new Map(volumes.map((volume) => [volume.name, volume]));
  const columns: Column<Database['volumes'][number]>[] = [
    { id: 'role', title: 'What is on it', width: '8rem', render: ({ role }) => role },
    { id: 'volume', title: 'Volume', render: ({ volume }) => <Link to={to.volume(volume)}>{volume}</Link> },
    { id: 'mount', title: 'Mounted on', hide: 2, render: ({ mount }) => <code>{mount}</code> },
    {
      id: 'size',
      title: 'Size',
      isNumber: true,
      width: '7rem',
      render: ({ volume }) => <Bytes of={of.get(volume)?.size_bytes} />,
    },
    {
      id: 'own',
      title: 'Its own',
      isNumber: true,
      width: '7rem',
      hide: 1,
      render: ({ volume }) => <Bytes of={of.get(volume)?.own_bytes} />,
    },
  ];
  return (
    <Panel title="Volumes">
      <DataTable
        label={`Volumes of ${database.name}`}
        rows={database.volumes}
        columns={columns}
        rowKey={({ volume }) => volume}
      />
    </Panel>
  );
}
