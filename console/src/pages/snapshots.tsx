// All snapshots, and the schedules that take them.
import { useMemo, useState } from 'react';
import { Tab, TabList, TabPanel, Tabs } from 'react-aria-components';
import { useGet } from '../api/resource';
import type { Schedule, Snapshot } from '../api/types';
import { CreateSchedule, scheduleActions } from '../dialogs/schedule';
import { DeleteSnapshots, snapshotActions, WhatComesBack } from '../dialogs/snapshot';
import { useOwners } from '../dialogs/volume';
import { openDialog } from '../state/dialog';
import { denied, refused } from '../state/rights';
import { Link, navigate, to, useQuery } from '../state/router';
import { useStore } from '../state/store';
import { ActionButton, Badge, Bytes, Empty, Failure, Loading, Page, Panel, Time } from '../ui/basics';
import { Choice, Search } from '../ui/fields';
import { duration, plural } from '../ui/format';
import { ActionMenu } from '../ui/menu';
import { DataTable, type Column } from '../ui/table';
import { ScheduleBadge } from './states';

export function Snapshots({ tab }: { tab: 'snapshots' | 'schedules' }) {
  useStore(refused);
  return (
    <Page
      title={tab === 'schedules' ? 'Schedules' : 'Snapshots'}
      actions={
        tab === 'schedules' && (
          <ActionButton
            tone="primary"
            icon="plus"
            refusal={denied('schedule_create')}
            onPress={() => openDialog(<CreateSchedule />)}
          >
            Create
          </ActionButton>
        )
      }
    >
      <Tabs
        className="tabs"
        selectedKey={tab}
        onSelectionChange={(key) => key !== tab && navigate(key === 'schedules' ? '/snapshots/schedules' : '/snapshots')}
      >
        <TabList className="tab-list" aria-label="Snapshots and schedules">
          <Tab id="snapshots" className="tab">
            Snapshots
          </Tab>
          <Tab id="schedules" className="tab">
            Schedules
          </Tab>
        </TabList>
        <TabPanel id="snapshots" className="tab-panel">
          <SnapshotList />
        </TabPanel>
        <TabPanel id="schedules" className="tab-panel">
          <Schedules />
        </TabPanel>
      </Tabs>
    </Page>
  );
}

function SnapshotList() {
  const { data: snapshots, error } = useGet('/v1/snapshots', undefined, 15);
  const volumes = useGet('/v1/volumes', undefined, 30).data ?? [];
  const owners = useOwners();
  const [search, setSearch] = useQuery('search');
  const [which, setWhich] = useQuery('which');
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const shown = useMemo(() => {
    const wanted = search.toLowerCase();
    return (snapshots ?? []).filter(
      (one) =>
        (which !== 'held' || one.hold) &&
        (one.name.toLowerCase().includes(wanted) || one.volumes.some((name) => name.toLowerCase().includes(wanted))),
    );
  }, [snapshots, search, which]);
  // What is gone meanwhile is selected no more.
  const chosen = (snapshots ?? []).filter((one) => selected.has(one.name));
  const columns = columnsOf((one) => (
    <ActionMenu
      of={`snapshot ${one.name}`}
      actions={() => snapshotActions(one, volumes, one.volumes.map((name) => owners.get(name)).find(Boolean))}
    />
  ));
  if (error && !snapshots) return <Failure error={error} />;
  if (!snapshots) return <Loading what="Asking for the snapshots" />;
  if (snapshots.length === 0) {
    return (
      <Empty title="No snapshot yet" command="ashlar snapshot create monday docs">
        A snapshot is an image of volumes at one instant. Schedules take them by the clock.
      </Empty>
    );
  }
  const none = chosen.length === 0 && 'Select snapshots first.';
  const held = chosen.some(({ hold }) => hold) && 'A snapshot of the selection is held: release it first.';
  return (
    <>
      <div className="toolbar">
        <Search label="Search by name or volume" value={search} onChange={setSearch} />
        <Choice
          label="Which"
          isCompact
          value={which || 'all'}
          onChange={(one) => setWhich(one === 'all' ? '' : one)}
          options={[
            { id: 'all', label: 'All' },
            { id: 'held', label: 'Held' },
          ]}
        />
        <span className="spring" />
        <span className="note" role="status">
          {chosen.length > 0 ? `${chosen.length} selected` : plural(shown.length, 'snapshot')}
        </span>
        <ActionButton
          refusal={none}
          onPress={() => openDialog(<WhatComesBack names={chosen.map(({ name }) => name)} />)}
        >
          What will I get back?
        </ActionButton>
        <ActionButton
          needs="snapshots_delete"
          refusal={none || held}
          tone="danger"
          onPress={() => openDialog(<DeleteSnapshots snapshots={chosen} />)}
        >
          Delete…
        </ActionButton>
      </div>
      <Panel className="flush">
        <DataTable
          label="Snapshots"
          rows={shown}
          columns={columns}
          rowKey={(one) => one.name}
          order={{ id: 'age', isDown: true }}
          selected={selected}
          onSelect={setSelected}
        />
      </Panel>
    </>
  );
}

function columnsOf(menu: (snapshot: Snapshot) => React.ReactNode): Column<Snapshot>[] {
  return [
    { id: 'name', title: 'Name', sort: (one) => one.name, render: (one) => <span className="strong">{one.name}</span> },
    {
      id: 'volumes',
      title: 'Of',
      hide: 1,
      sort: (one) => one.volumes[0] ?? '',
      render: (one) => (
        <span title={one.volumes.join(', ')}>
          {one.volumes[0] && <Link to={to.volume(one.volumes[0])}>{one.volumes[0]}</Link>}
          {one.volumes.length > 1 && ` and ${one.volumes.length - 1} more`}
        </span>
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
      id: 'size',
      title: 'Size',
      isNumber: true,
      hide: 2,
      width: '7rem',
      sort: (one) => one.size_bytes,
      render: (one) => <Bytes of={one.size_bytes} />,
    },
    {
      id: 'hold',
      title: 'Held',
      hide: 1,
      width: '9rem',
      sort: (one) => one.hold?.since_unix_seconds ?? 0,
      render: (one) =>
        one.hold ? (
          <span title={one.hold.reason}>
            <Badge tone="warn">held</Badge>
          </span>
        ) : (
          ''
        ),
    },
    { id: 'menu', title: '', width: '3.2rem', render: menu },
  ];
}

function Schedules() {
  const { data: schedules, error } = useGet('/v1/schedules', undefined, 5);
  if (error && !schedules) return <Failure error={error} />;
  if (!schedules) return <Loading what="Asking for the schedules" />;
  if (schedules.length === 0) {
    return (
      <Empty
        title="No schedule yet"
        command="ashlar schedule create undo --of prod --every 1s --keep seconds=3600,hourly=24"
      >
        A schedule takes snapshots by the clock and deletes what its rule does not keep. Every second is fine.
      </Empty>
    );
  }
  return (
    <Panel className="flush">
      <DataTable
        label="Schedules"
        rows={schedules}
        columns={SCHEDULE_COLUMNS}
        rowKey={(one) => one.name}
        order={{ id: 'name', isDown: false }}
      />
    </Panel>
  );
}

function Of({ schedule }: { schedule: Schedule }) {
  const databases = (schedule.databases ?? []).map((name) => ({ name, link: to.database(name) }));
  const volumes = (schedule.volumes ?? []).map((name) => ({ name, link: to.volume(name) }));
  return (
    <>
      {[...databases, ...volumes].map(({ name, link }, index) => (
        <span key={name}>
          {index > 0 && ', '}
          <Link to={link}>{name}</Link>
        </span>
      ))}
    </>
  );
}

const SCHEDULE_COLUMNS: Column<Schedule>[] = [
  {
    id: 'name',
    title: 'Name',
    sort: (one) => one.name,
    render: (one) => (
      <>
        <span className="strong">{one.name}</span> <ScheduleBadge schedule={one} />
        {one.reason && <span className="sub">{one.reason}</span>}
      </>
    ),
  },
  { id: 'of', title: 'Of', hide: 1, render: (one) => <Of schedule={one} /> },
  {
    id: 'every',
    title: 'Every',
    width: '6rem',
    sort: (one) => one.every_seconds,
    render: (one) => duration(one.every_seconds),
  },
  { id: 'keep', title: 'Keeps', hide: 2, render: (one) => <code>{one.keep}</code> },
  {
    id: 'count',
    title: 'Snapshots',
    hide: 1,
    width: '8rem',
    isNumber: true,
    sort: (one) => one.snapshot_count,
    render: (one) => (
      <>
        {one.snapshot_count}
        {one.held_count > 0 && <small> ({one.held_count} held)</small>}
      </>
    ),
  },
  {
    id: 'next',
    title: 'Next',
    hide: 1,
    width: '8rem',
    render: (one) => (one.state === 'paused' ? 'paused' : <Time seconds={one.next_unix_seconds} />),
  },
  {
    id: 'proof',
    title: 'Last proof',
    hide: 2,
    width: '11rem',
    render: (one) =>
      one.last_proof ? (
        <Badge tone={one.last_proof.is_proven ? 'good' : 'bad'}>
          {one.last_proof.is_proven ? 'proven' : 'NOT proven'} <Time seconds={one.last_proof.proven_unix_seconds} />
        </Badge>
      ) : (
        <span className="faint">{one.prove_every_count ? 'none yet' : 'does not prove'}</span>
      ),
  },
  {
    id: 'menu',
    title: '',
    width: '3.2rem',
    render: (one) => <ActionMenu of={`schedule ${one.name}`} actions={() => scheduleActions(one)} />,
  },
];
