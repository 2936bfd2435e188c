// Who is connected, and by which doors one comes in.
import { api } from '../api/client';
import { useGet } from '../api/resource';
import type { Attachment, Door, DoorClient, DoorIo } from '../api/types';
import { detach, useOwners } from '../dialogs/volume';
import { openDialog } from '../state/dialog';
import { Link, to } from '../state/router';
import { ActionButton, Badge, Empty, Failure, Loading, Page, Panel, Words, type Tone } from '../ui/basics';
import { FormDialog } from '../ui/dialog';
import { bytes, count, duration, micros, plural } from '../ui/format';
import { DataTable, type Column } from '../ui/table';

const DOOR_TONES: Record<Door['state'], Tone> = { serving: 'good', idle: 'good', off: 'plain', failed: 'bad' };

export function Clients() {
  const status = useGet('/v1/status');
  return (
    <Page title="Clients and doors">
      {status.error && <Failure error={status.error} />}
      {!status.data && !status.error && <Loading what="Asking for the doors" />}
      {status.data && (
        <Panel title="Doors" note="How hosts reach volumes, and people the API.">
          <DataTable
            label="Doors"
            rows={status.data.doors}
            columns={DOORS}
            rowKey={(door) => `${door.name} ${door.transport} ${door.address}`}
          />
        </Panel>
      )}
      <ClientList />
      <Attachments />
      <Counters />
    </Page>
  );
}

const DOORS: Column<Door>[] = [
  {
    id: 'name',
    title: 'Door',
    width: '10rem',
    render: (door) => (
      <>
        <span className="strong">{door.name}</span> <span className="faint">{door.transport}</span>
      </>
    ),
  },
  { id: 'state', title: 'State', width: '8rem', render: (door) => <Badge tone={DOOR_TONES[door.state]}>{door.state}</Badge> },
  {
    id: 'address',
    title: 'Address',
    hide: 1,
    render: (door) => (
      <>
        <code>{door.address}</code>
        {door.reason && (
          <span className="sub">
            <Words>{door.reason}</Words>
          </span>
        )}
      </>
    ),
  },
  { id: 'clients', title: 'Clients', isNumber: true, width: '6rem', render: (door) => door.client_count ?? '–' },
];

function CutOff({ client }: { client: DoorClient }) {
  const run = async () => {
    await api.delete('/v1/clients/{client}', { path: { client: client.id } });
  };
  return (
    <FormDialog
      title={`Cut off client ${client.id}`}
      task={`cut off client ${client.id}`}
      submit="Cut off"
      isDanger
      run={run}
    >
      <p className="loss">
        {client.program ?? client.initiator ?? client.address ?? 'It'} loses its connection
        {client.volume ? ` to ${client.volume}` : ''}. Its requests under way run to their end. It may come back.
      </p>
    </FormDialog>
  );
}

function ClientList() {
  const { data: clients, error } = useGet('/v1/clients', undefined, 5);
  const doors = useGet('/v1/status').data?.doors;
  const socket = doors?.find((door) => door.name === 'nbd' && door.transport === 'unix')?.address ?? 'SOCKET';
  const columns: Column<DoorClient>[] = [
    { id: 'id', title: 'Client', width: '5.5rem', hide: 1, sort: (one) => one.id, render: (one) => one.id },
    {
      id: 'who',
      title: 'Who',
      render: (one) => (
        <>
          {one.program ?? one.initiator ?? one.address ?? one.transport}
          <span className="sub">
            {one.process_id
              ? `process ${one.process_id}, user ${one.user_id}`
              : `${one.door} over ${one.transport}${one.initiator ? ` from ${one.address}` : ''}`}
          </span>
        </>
      ),
    },
    {
      id: 'volume',
      title: 'Volume or target',
      sort: (one) => one.volume ?? one.target ?? '',
      render: (one) =>
        one.volume ? (
          <Link to={to.volume(one.volume.split('@')[0])}>{one.volume}</Link>
        ) : (
          (one.target ?? <span className="faint">none yet</span>)
        ),
    },
    { id: 'mode', title: 'May', width: '7rem', hide: 1, render: (one) => (one.is_read_only ? 'read' : 'read, write') },
    {
      id: 'flight',
      title: 'Requests waiting',
      isNumber: true,
      width: '9rem',
      hide: 2,
      sort: (one) => one.in_flight_count,
      render: (one) => one.in_flight_count,
    },
    {
      id: 'since',
      title: 'Connected',
      width: '8rem',
      hide: 1,
      sort: (one) => one.connected_seconds,
      render: (one) => duration(one.connected_seconds),
    },
    {
      id: 'cut',
      title: '',
      width: '6.5rem',
      render: (one) => (
        <ActionButton needs="client_disconnect" onPress={() => openDialog(<CutOff client={one} />)}>
          Cut off…
        </ActionButton>
      ),
    },
  ];
  return (
    <Panel title="Clients of NBD and iSCSI">
      {error && <Failure error={error} />}
      {clients?.length === 0 && (
        <Empty title="No client is connected" command={`nbd-client -unix ${socket} -N docs /dev/nbd0`} />
      )}
      {clients && clients.length > 0 && (
        <DataTable label="Clients" rows={clients} columns={columns} rowKey={(one) => String(one.id)} />
      )}
    </Panel>
  );
}

function Attachments() {
  const { data: attachments, error } = useGet('/v1/attachments');
  const owners = useOwners();
  const columns: Column<Attachment>[] = [
    {
      id: 'volume',
      title: 'Volume',
      sort: (one) => one.volume,
      render: (one) => <Link to={to.volume(one.volume)}>{one.volume}</Link>,
    },
    { id: 'device', title: 'Device', width: '9rem', sort: (one) => one.device, render: (one) => <code>{one.device}</code> },
    {
      id: 'mount',
      title: 'Mounted on',
      hide: 1,
      render: (one) => (one.mount ? <code>{one.mount}</code> : <span className="faint">not mounted</span>),
    },
    { id: 'outlives', title: 'Outlives', width: '8rem', hide: 2, render: (one) => one.outlives ?? '–' },
    {
      id: 'detach',
      title: '',
      width: '6.5rem',
      render: (one) => {
        const owner = owners.get(one.volume);
        const refusal = owner && `It belongs to database ${owner}: stop that.`;
        return (
          <ActionButton needs="attachment_delete" refusal={refusal} onPress={() => detach(one.volume)}>
            Detach
          </ActionButton>
        );
      },
    },
  ];
  return (
    <Panel title="Attached to this machine">
      {error && <Failure error={error} />}
      {attachments?.length === 0 && (
        <Empty title="Nothing is attached" command="ashlar attach docs --mount /mnt/docs --format ext4" />
      )}
      {attachments && attachments.length > 0 && (
        <DataTable label="Attachments" rows={attachments} columns={columns} rowKey={(one) => one.volume} />
      )}
    </Panel>
  );
}

function Counters() {
  const io = useGet('/v1/io', undefined, 10).data ?? [];
  if (io.length === 0) return null;
  const of = (row: DoorIo, name: string) => row.operations.find(({ operation }) => operation === name);
  const part = (id: string, name: string): Column<DoorIo> => ({
    id,
    title: `${name[0].toUpperCase()}${name.slice(1)}s`,
    isNumber: true,
    sort: (row) => of(row, name)?.count ?? 0,
    render: (row) => {
      const one = of(row, name);
      if (!one) return '–';
      return (
        <span title={`${bytes(one.bytes)}, p99 ${micros(one.latency_micros_p99)}, ${one.errors} errors`}>
          {count(one.count)} <small className="hide-1">{name === 'flush' ? '' : bytes(one.bytes)}</small>
        </span>
      );
    },
  });
  const errors = (row: DoorIo) => row.operations.reduce((sum, one) => sum + one.errors, 0);
  const columns: Column<DoorIo>[] = [
    {
      id: 'volume',
      title: 'Volume',
      sort: (row) => row.volume,
      render: (row) => (
        <>
          <Link to={to.volume(row.volume)}>{row.volume}</Link> <span className="faint">by {row.door}</span>
        </>
      ),
    },
    part('reads', 'read'),
    part('writes', 'write'),
    { ...part('flushes', 'flush'), title: 'Flushes', hide: 1 },
    { id: 'errors', title: 'Errors', isNumber: true, width: '6rem', hide: 1, sort: errors, render: (row) => errors(row) },
  ];
  return (
    <Panel title="Since the array started" note={plural(io.length, 'volume and door', 'volumes and doors')}>
      <DataTable label="Counters" rows={io} columns={columns} rowKey={(row) => `${row.volume} ${row.door}`} />
    </Panel>
  );
}

