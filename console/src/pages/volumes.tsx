// All volumes with what they do now. 10,000 of them stay smooth: only rows in sight are in the page.
import { useMemo } from 'react';
import { figures, ratesOf } from '../api/live';
import { useGet } from '../api/resource';
import type { DeletedVolume, Rates, Volume } from '../api/types';
import { api } from '../api/client';
import { CreateVolume, useOwners, volumeActions } from '../dialogs/volume';
import { openDialog } from '../state/dialog';
import { Link, to, useQuery } from '../state/router';
import { useStore } from '../state/store';
import { runTask } from '../state/tasks';
import { ActionButton, Bytes, Empty, Failure, Loading, Page, Panel } from '../ui/basics';
import { Choice, Search } from '../ui/fields';
import { bytes, bytesPerSecond, count, duration, micros, plural } from '../ui/format';
import { ActionMenu } from '../ui/menu';
import { Sparkline } from '../ui/sparkline';
import { DataTable, type Column } from '../ui/table';

const iops = (rates: Rates) => rates.reads_per_second + rates.writes_per_second;
const bandwidth = (rates: Rates) => rates.read_bytes_per_second + rates.write_bytes_per_second;

/// A value of a volume that changes every second: only this cell is drawn anew.
function Live({ volume, show }: { volume: string; show: (rates: Rates) => string }) {
  useStore(figures);
  return <>{show(ratesOf(volume))}</>;
}

function columnsOf(owners: Map<string, string>): Column<Volume>[] {
  return [
    {
      id: 'name',
      title: 'Name',
      width: '13rem',
      sort: (volume) => volume.name,
      render: (volume) => (
        <>
          <Link to={to.volume(volume.name)} className="strong">
            {volume.name}
          </Link>
          <span className="sub narrow-only">
            {bytes(volume.size_bytes)}, {bytes(volume.own_bytes)} its own
          </span>
        </>
      ),
    },
    {
      id: 'use',
      title: 'Used by',
      width: '10rem',
      hide: 2,
      sort: (volume) => owners.get(volume.name) ?? volume.device ?? '',
      render: (volume) => <UsedBy volume={volume} owner={owners.get(volume.name)} />,
    },
    number('size', 'Size', '5.5rem', (volume) => volume.size_bytes),
    number('written', 'Written', '5.5rem', (volume) => volume.written_bytes ?? -1, 3),
    number('own', 'Its own', '5.5rem', (volume) => volume.own_bytes ?? -1),
    {
      id: 'spark',
      title: 'Last minute',
      width: '7.5rem',
      hide: 1,
      render: (volume) => <Sparkline volume={volume.name} />,
    },
    {
      id: 'iops',
      title: 'IOPS',
      isNumber: true,
      width: '4.5rem',
      sort: (volume) => iops(ratesOf(volume.name)),
      render: (volume) => <Live volume={volume.name} show={(rates) => count(iops(rates))} />,
    },
    {
      id: 'bandwidth',
      title: 'Bandwidth',
      isNumber: true,
      width: '7rem',
      hide: 1,
      sort: (volume) => bandwidth(ratesOf(volume.name)),
      render: (volume) => <Live volume={volume.name} show={(rates) => bytesPerSecond(bandwidth(rates))} />,
    },
    {
      id: 'latency',
      title: 'Write p99',
      isNumber: true,
      width: '6rem',
      hide: 2,
      sort: (volume) => ratesOf(volume.name).write_latency_micros?.p99 ?? -1,
      render: (volume) => <Live volume={volume.name} show={(rates) => micros(rates.write_latency_micros?.p99)} />,
    },
    {
      id: 'menu',
      title: '',
      width: '3.2rem',
      render: (volume) => (
        <ActionMenu of={`volume ${volume.name}`} actions={() => volumeActions(volume, owners.get(volume.name))} />
      ),
    },
  ];
}

function number(id: string, title: string, width: string, value: (volume: Volume) => number, hide: 1 | 2 | 3 = 1): Column<Volume> {
  return {
    id,
    title,
    width,
    hide,
    isNumber: true,
    sort: value,
    render: (volume) => <Bytes of={value(volume) < 0 ? null : value(volume)} />,
  };
}

export function UsedBy({ volume, owner }: { volume: Volume; owner?: string }) {
  if (owner) {
    return (
      <>
        database <Link to={to.database(owner)}>{owner}</Link>
      </>
    );
  }
  return volume.device ? <>this machine, {volume.device}</> : <span className="faint">nobody</span>;
}

export function Volumes() {
  const { data: volumes, error } = useGet('/v1/volumes', undefined, 15);
  const owners = useOwners();
  const [search, setSearch] = useQuery('search');
  const [pool, setPool] = useQuery('pool');
  const now = useStore(figures);
  const hasNoPool = useGet('/v1/pools').data?.length === 0;
  const pools = useMemo(() => [...new Set((volumes ?? []).map((volume) => volume.pool))], [volumes]);
  const shown = useMemo(() => {
    const wanted = search.toLowerCase();
    return (volumes ?? []).filter(
      (volume) => (!pool || volume.pool === pool) && volume.name.toLowerCase().includes(wanted),
    );
  }, [volumes, search, pool]);
  const ownersKey = [...owners].join();
  const columns = useMemo(() => columnsOf(owners), [ownersKey]);
  const busy = now?.volumes.length ?? 0;
  const lead = volumes && `${plural(volumes.length, 'volume')}, ${busy} with requests in the last second`;
  return (
    <Page
      title="Volumes"
      lead={lead}
      actions={
        <ActionButton
          tone="primary"
          icon="plus"
          needs="volume_create"
          refusal={hasNoPool && 'There is no pool yet.'}
          onPress={() => openDialog(<CreateVolume />)}
        >
          Create
        </ActionButton>
      }
    >
      {error && <Failure error={error} />}
      {!volumes && !error && <Loading what="Asking for the volumes" />}
      {volumes?.length === 0 && (
        <Empty title="No volume yet" command="ashlar volume create docs --size 64GiB">
          A volume is what a host sees as one block device. It takes what is written to it, not its size.
        </Empty>
      )}
      {volumes && volumes.length > 0 && (
        <>
          <div className="toolbar">
            <Search label="Search by name" value={search} onChange={setSearch} />
            {pools.length > 1 && (
              <Choice
                label="Pool"
                isCompact
                value={pool || 'all'}
                onChange={(one) => setPool(one === 'all' ? '' : one)}
                options={[{ id: 'all', label: 'All pools' }, ...pools.map((one) => ({ id: one, label: `Pool ${one}` }))]}
              />
            )}
            {shown.length !== volumes.length && <span className="note">{plural(shown.length, 'volume')} found</span>}
          </div>
          <Panel className="flush">
            <DataTable
              label="Volumes"
              rows={shown}
              columns={columns}
              rowKey={(volume) => volume.name}
              order={{ id: 'name', isDown: false }}
              tick={Math.floor((now?.unix_millis ?? 0) / 5000)}
            />
          </Panel>
        </>
      )}
      <Deleted />
    </Page>
  );
}

function Deleted() {
  const deleted = useGet('/v1/deleted-volumes', undefined, 30).data ?? [];
  if (deleted.length === 0) return null;
  const key = (one: DeletedVolume) => `${one.name}:${one.id}`;
  const back = (one: DeletedVolume) =>
    runTask(`bring volume ${one.name} back`, async () => {
      await api.post('/v1/deleted-volumes/{volume}/undelete', { path: { volume: key(one) } });
    });
  const columns: Column<DeletedVolume>[] = [
    { id: 'name', title: 'Name', sort: (one) => one.name, render: (one) => one.name },
    { id: 'size', title: 'Size', isNumber: true, width: '7rem', hide: 1, render: (one) => <Bytes of={one.size_bytes} /> },
    {
      id: 'left',
      title: 'Kept for another',
      width: '9rem',
      sort: (one) => one.remaining_seconds,
      render: (one) => duration(one.remaining_seconds),
    },
    {
      id: 'back-action',
      title: '',
      width: '9rem',
      render: (one) => (
        <ActionButton needs="volume_undelete" onPress={() => back(one)}>
          Bring back
        </ActionButton>
      ),
    },
  ];
  return (
    <Panel title="Deleted, can come back" note="Given up earlier where a pool needs the room.">
      <DataTable label="Deleted volumes" rows={deleted} columns={columns} rowKey={key} />
    </Panel>
  );
}
