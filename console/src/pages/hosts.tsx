// Volumes that hosts reach over iSCSI, and the hosts that may.
import { useGet } from '../api/resource';
import type { Export, Host } from '../api/types';
import { ChangeHost, CreateExport, CreateHost, DeleteExport, DeleteHost } from '../dialogs/host';
import { openDialog } from '../state/dialog';
import { denied, refused } from '../state/rights';
import { Link, to } from '../state/router';
import { useStore } from '../state/store';
import { ActionButton, Badge, Empty, Failure, Loading, Page, Panel, Words } from '../ui/basics';
import { bytes, plural } from '../ui/format';
import { DataTable, type Column } from '../ui/table';

export function Hosts() {
  useStore(refused);
  const exports = useGet('/v1/exports', undefined, 10);
  const hosts = useGet('/v1/hosts', undefined, 10);
  const doors = useGet('/v1/status').data?.doors ?? [];
  const iscsi = doors.filter((door) => door.name === 'iscsi');
  const isShut = iscsi.length > 0 && iscsi.every((door) => door.state === 'off');
  return (
    <Page title="Hosts and exports">
      <Panel
        title="Exports"
        note="Volumes that hosts reach over iSCSI. Each pool is one target."
        aside={
          <ActionButton
            tone="primary"
            icon="plus"
            refusal={denied('export_create')}
            onPress={() => openDialog(<CreateExport />)}
          >
            Export a volume
          </ActionButton>
        }
      >
        {isShut && (
          <p className="note">
            <Words>No host can come in: the setting `iscsi_listen` names no address.</Words>
          </p>
        )}
        {iscsi.map(
          ({ address, reason }) =>
            reason && (
              <p className="note" key={address}>
                <code>{address}</code> <Words>{reason}</Words>
              </p>
            ),
        )}
        {exports.error && <Failure error={exports.error} />}
        {!exports.data && !exports.error && <Loading what="Asking for the exports" />}
        {exports.data?.length === 0 && <Empty title="Nothing is exported" command="ashlar export create docs" />}
        {exports.data && exports.data.length > 0 && (
          <DataTable label="Exports" rows={exports.data} columns={EXPORTS} rowKey={(one) => one.volume} />
        )}
      </Panel>
      <Panel
        title="Hosts"
        note="Who may come in, and how they prove it."
        aside={
          <ActionButton icon="plus" refusal={denied('host_create')} onPress={() => openDialog(<CreateHost />)}>
            Let a host in
          </ActionButton>
        }
      >
        {hosts.error && <Failure error={hosts.error} />}
        {!hosts.data && !hosts.error && <Loading what="Asking for the hosts" />}
        {hosts.data?.length === 0 && (
          <Empty
            title="No host is named"
            command="ashlar host create db1 --iqn iqn.1993-08.org.debian:01:2f6b9d8a51c --chap-user db1 --chap-secret-file db1.secret"
          >
            On loopback everybody comes in. At any other address only hosts with a secret do.
          </Empty>
        )}
        {hosts.data && hosts.data.length > 0 && (
          <DataTable label="Hosts" rows={hosts.data} columns={HOSTS} rowKey={(one) => one.name} />
        )}
      </Panel>
    </Page>
  );
}

const EXPORTS: Column<Export>[] = [
  {
    id: 'volume',
    title: 'Volume',
    sort: (one) => one.volume,
    render: (one) => <Link to={to.volume(one.volume)}>{one.volume}</Link>,
  },
  { id: 'lun', title: 'LUN', isNumber: true, width: '5rem', sort: (one) => one.lun, render: (one) => one.lun },
  {
    id: 'target',
    title: 'Target',
    hide: 1,
    sort: (one) => one.target,
    render: (one) => (
      <>
        <code>{one.target}</code>
        <span className="sub">
          {one.addresses.length > 0 ? `at ${one.addresses.join(', ')}` : 'at no address'}, blocks of {bytes(one.block_bytes)}
        </span>
      </>
    ),
  },
  {
    id: 'hosts',
    title: 'Seen by',
    render: (one) => (one.hosts.length > 0 ? one.hosts.join(', ') : <span className="faint">every host</span>),
  },
  {
    id: 'sessions',
    title: 'Sessions',
    isNumber: true,
    width: '7rem',
    hide: 1,
    sort: (one) => one.session_count,
    render: (one) => one.session_count,
  },
  {
    id: 'delete',
    title: '',
    width: '6.5rem',
    render: (one) => (
      <ActionButton refusal={denied('export_delete')} onPress={() => openDialog(<DeleteExport of={one} />)}>
        Delete…
      </ActionButton>
    ),
  },
];

const HOSTS: Column<Host>[] = [
  {
    id: 'name',
    title: 'Host',
    sort: (one) => one.name,
    render: (one) => (
      <>
        <span className="strong">{one.name}</span>
        <span className="sub">
          <code>{one.initiator}</code>
        </span>
      </>
    ),
  },
  {
    id: 'proof',
    title: 'Proof',
    width: '9rem',
    render: (one) => (
      <>
        {one.chap_user ? <Badge tone="good">CHAP</Badge> : <Badge tone="warn">none</Badge>}
        {one.mutual_chap_user && <span className="sub">mutual</span>}{' '}
        <ActionButton refusal={denied('host_change')} onPress={() => openDialog(<ChangeHost host={one} />)}>
          Change…
        </ActionButton>
      </>
    ),
  },
  {
    id: 'volumes',
    title: 'Sees',
    hide: 1,
    render: (one) => (one.volumes.length > 0 ? one.volumes.join(', ') : <span className="faint">nothing yet</span>),
  },
  {
    id: 'sessions',
    title: 'Logged in from',
    hide: 1,
    sort: (one) => one.sessions.length,
    render: (one) =>
      one.sessions.length === 0 ? (
        <span className="faint">nowhere</span>
      ) : (
        <>
          {one.sessions[0].address}
          {one.sessions.length > 1 && <span className="sub">{plural(one.sessions.length, 'session')}</span>}
        </>
      ),
  },
  {
    id: 'delete',
    title: '',
    width: '6.5rem',
    render: (one) => (
      <ActionButton refusal={denied('host_delete')} onPress={() => openDialog(<DeleteHost host={one} />)}>
        Delete…
      </ActionButton>
    ),
  },
];
