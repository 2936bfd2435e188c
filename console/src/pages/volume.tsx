// One volume: what it does, its snapshots with what each would give back, its policy, who uses it.
import { useEffect, useState, type ReactNode } from 'react';
import { Tab, TabList, TabPanel, Tabs } from 'react-aria-components';
import { api } from '../api/client';
import { useGet } from '../api/resource';
import type { Snapshot, Volume, VolumeUser } from '../api/types';
import { snapshotActions, SnapshotVolume } from '../dialogs/snapshot';
import { COMPRESSIONS, sizeOf, useOwners, volumeActions } from '../dialogs/volume';
import { openDialog } from '../state/dialog';
import { Link, useQuery } from '../state/router';
import { runTask } from '../state/tasks';
import { ActionButton, Badge, Bytes, Button, Empty, Facts, Failure, Loading, Page, Panel, Time } from '../ui/basics';
import { FormDialog } from '../ui/dialog';
import { Choice, sizeError, SizeInput, TextInput, Toggle } from '../ui/fields';
import { bytes, micros, plural, whole } from '../ui/format';
import { IoProfile } from '../ui/io-profile';
import { ActionMenu } from '../ui/menu';
import { Performance, RangeTabs } from '../ui/performance';
import { DataTable, type Column } from '../ui/table';
import { ObjectivePanel } from './objective';
import { UsedBy } from './volumes';

const UP_FRONT = ['snapshot', 'clone', 'attach', 'detach'];

export function VolumePage({ name }: { name: string }) {
  const { data: volume, error } = useGet('/v1/volumes/{volume}', { path: { volume: name } });
  const owner = useOwners().get(name);
  const [tab, setTab] = useQuery('tab');
  const above = <Link to="/volumes">Volumes</Link>;
  if (!volume) {
    return (
      <Page title={name} above={above}>
        {error ? <Failure error={error} /> : <Loading what={`Asking for volume ${name}`} />}
      </Page>
    );
  }
  const actions = volumeActions(volume, owner);
  return (
    <Page
      title={volume.name}
      above={above}
      lead={
        <>
          <Bytes of={volume.size_bytes} />, used by <UsedBy volume={volume} owner={owner} />
        </>
      }
      actions={
        <>
          {actions
            .filter(({ id }) => UP_FRONT.includes(id))
            .map((action) => (
              <ActionButton key={action.id} needs={action.needs} refusal={action.refusal} onPress={action.onAction}>
                {action.label}
              </ActionButton>
            ))}
          <ActionMenu of={`volume ${name}`} actions={() => actions.filter(({ id }) => !UP_FRONT.includes(id))}>
            More
          </ActionMenu>
        </>
      }
    >
      {error && <Failure title="What is shown is of before" error={error} />}
      <Tabs className="tabs" selectedKey={tab || 'performance'} onSelectionChange={(key) => setTab(String(key))}>
        <TabList className="tab-list" aria-label={`Volume ${name}`}>
          {['performance', 'snapshots', 'policy', 'users'].map((id) => (
            <Tab key={id} id={id} className="tab">
              {TITLES[id]}
            </Tab>
          ))}
        </TabList>
        <TabPanel id="performance" className="tab-panel">
          <Space volume={volume} />
          <ObjectivePanel kind="volume" name={name} />
          <Panel title="Performance" aside={<RangeTabs />}>
            <Performance object={`volume:${name}`} />
          </Panel>
          <IoProfile volume={name} />
        </TabPanel>
        <TabPanel id="snapshots" className="tab-panel">
          <SnapshotsOf volume={volume} owner={owner} />
        </TabPanel>
        <TabPanel id="policy" className="tab-panel">
          <Policy key={policyKey(volume)} volume={volume} />
        </TabPanel>
        <TabPanel id="users" className="tab-panel">
          <Users volume={volume} />
        </TabPanel>
      </Tabs>
    </Page>
  );
}

const TITLES: Record<string, string> = {
  performance: 'Performance',
  snapshots: 'Snapshots',
  policy: 'Policy',
  users: 'Used by',
};

function Space({ volume }: { volume: Volume }) {
  return (
    <Panel>
      <Facts
        of={[
          ['Size hosts see', <Bytes of={volume.size_bytes} />],
          ['Written', <Bytes of={volume.written_bytes} />],
          ['Its own, as stored', <Bytes of={volume.own_bytes} />],
          ['Only it holds', <Bytes of={volume.unique_bytes} />],
          ['Pool', volume.pool],
          ['Cloned from', volume.origin ?? 'no other'],
          ['Reduction', `${volume.compression}${volume.dedupe ? ', dedupe' : ''}, ${volume.profile}`],
          ['Blocks', `${volume.logical_block_bytes} bytes`],
          ['Created', <Time seconds={volume.created_unix_seconds} />],
        ]}
      />
    </Panel>
  );
}

/// What each snapshot alone would give back, asked one after the other: each answer costs a checkpoint.
function useGivesBack(names: string[], isAsked: boolean): Map<string, number | null> {
  const [known, setKnown] = useState(new Map<string, number | null>());
  const key = names.join('\n');
  useEffect(() => {
    if (!isAsked) return;
    let isHere = true;
    const ask = async () => {
      for (const name of names) {
        if (!isHere) return;
        if (known.has(name)) continue;
        const body = { names: [`snapshot:${name}`], within_seconds: 10 };
        const found = await api.post('/v1/space/reclaim', { body }).then(
          (answer) => answer.chunk_bytes + answer.map_page_bytes,
          () => null,
        );
        if (isHere) setKnown((before) => new Map(before).set(name, found));
      }
    };
    void ask();
    return () => {
      isHere = false;
    };
  }, [key, isAsked]);
  return known;
}

const ASKED_AT_ONCE = 10;

function SnapshotsOf({ volume, owner }: { volume: Volume; owner?: string }) {
  const { data: all, error } = useGet('/v1/snapshots');
  const volumes = useGet('/v1/volumes', undefined, 30).data ?? [volume];
  const own = (all ?? [])
    .filter((snapshot) => snapshot.volumes.includes(volume.name))
    .sort((left, right) => right.created_unix_seconds - left.created_unix_seconds);
  const [isEach, setEach] = useState(false);
  const asked = own.slice(0, isEach ? own.length : ASKED_AT_ONCE).map(({ name }) => name);
  const back = useGivesBack(asked, own.length > 0);
  const columns: Column<Snapshot>[] = [
    {
      id: 'name',
      title: 'Snapshot',
      sort: (one) => one.name,
      render: (one) => (
        <>
          {one.name}
          {one.hold && <span className="sub">held{one.hold.reason && `: ${one.hold.reason}`}</span>}
          {one.volumes.length > 1 && <span className="sub">{plural(one.volumes.length, 'volume')}</span>}
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
      id: 'back',
      title: 'Would give back',
      isNumber: true,
      width: '9rem',
      sort: (one) => back.get(one.name) ?? -1,
      render: (one) =>
        back.has(one.name) ? <Bytes of={back.get(one.name)} /> : asked.includes(one.name) ? '…' : <span className="faint">not asked</span>,
    },
    {
      id: 'menu',
      title: '',
      width: '3.2rem',
      render: (one) => <ActionMenu of={`snapshot ${one.name}`} actions={() => snapshotActions(one, volumes, owner)} />,
    },
  ];
  const take = () => openDialog(<SnapshotVolume volumes={[volume.name]} />);
  return (
    <Panel
      title="Snapshots"
      note="What each alone would give back, if it were deleted. Several together may give back more."
      aside={
        <div className="actions">
          {own.length > ASKED_AT_ONCE && !isEach && <Button onPress={() => setEach(true)}>Ask for all {own.length}</Button>}
          <ActionButton icon="plus" needs="snapshot_create" onPress={take}>
            Take one
          </ActionButton>
        </div>
      }
    >
      {error && <Failure error={error} />}
      {all && own.length === 0 && (
        <Empty title="No snapshot yet" command={`ashlar snapshot create before-upgrade ${volume.name}`}>
          A snapshot is an image of the volume at one instant. It takes no space at first.
        </Empty>
      )}
      {own.length > 0 && (
        <DataTable
          label={`Snapshots of ${volume.name}`}
          rows={own}
          columns={columns}
          rowKey={(one) => one.name}
          order={{ id: 'age', isDown: true }}
          atFirst={15}
          tick={back}
        />
      )}
    </Panel>
  );
}

function policyKey(volume: Volume): string {
  const { name, compression, dedupe, limit_bytes, reserve_bytes } = volume;
  const { requests_per_second, bytes_per_second, burst_seconds } = volume;
  const rates = [requests_per_second, bytes_per_second, burst_seconds];
  const precedence = [volume.floor_micros, volume.class];
  return [name, compression, dedupe, limit_bytes, reserve_bytes, ...rates, ...precedence].join('/');
}

const sizeText = (size: number | null | undefined): string => (size ? bytes(size) : '');
const countText = (count: number | null | undefined): string => (count ? String(count) : '');
const countOf = (text: string): number => Number(text.trim() || 0);
const floorText = (time: number | null | undefined): string => (time ? String(time / 1000) : '');
const floorOf = (text: string): number => Math.round(Number(text.trim() || 0) * 1000);
const floorError = (text: string): string | null =>
  /^\s*(\d+(\.\d{1,3})?)?\s*$/.test(text) ? null : 'Write milliseconds, such as 2 or 0.5.';
const CLASSES: { id: 'normal' | 'low'; label: string; note: string }[] = [
  { id: 'normal', label: 'Normal', note: 'gives way to nobody' },
  { id: 'low', label: 'Low', note: 'gives way to volumes of class normal' },
];
const countError = (text: string): string | null =>
  /^\s*\d*\s*$/.test(text) ? null : 'Write a whole number, such as 2000.';

function floorFacts({ floor }: Volume): [string, ReactNode][] {
  if (!floor) return [];
  const pause = floor.pause_micros ? `, each ${micros(floor.pause_micros)} after the last` : '';
  const others = floor.depth_count ? `${plural(floor.depth_count, 'request')} at a time${pause}` : 'not held back';
  return [
    ['Above its floor', `${whole(floor.miss_count)} of ${whole(floor.request_count)} requests`],
    ['Others', others],
  ];
}

function Policy({ volume }: { volume: Volume }) {
  const [compression, setCompression] = useState(volume.compression);
  const [isDeduped, setDeduped] = useState(volume.dedupe);
  const [limit, setLimit] = useState(sizeText(volume.limit_bytes));
  const [reserve, setReserve] = useState(sizeText(volume.reserve_bytes));
  const [requests, setRequests] = useState(countText(volume.requests_per_second));
  const [bandwidth, setBandwidth] = useState(sizeText(volume.bytes_per_second));
  const [burst, setBurst] = useState(countText(volume.burst_seconds));
  const [floor, setFloor] = useState(floorText(volume.floor_micros));
  const [ofClass, setClass] = useState(volume.class ?? 'normal');
  const errors = [...[limit, reserve, bandwidth].map(sizeError), ...[requests, burst].map(countError), floorError(floor)];
  const wrong = errors.find((error) => error !== null);
  const isChanged =
    compression !== volume.compression ||
    isDeduped !== volume.dedupe ||
    limit !== sizeText(volume.limit_bytes) ||
    reserve !== sizeText(volume.reserve_bytes) ||
    requests !== countText(volume.requests_per_second) ||
    bandwidth !== sizeText(volume.bytes_per_second) ||
    burst !== countText(volume.burst_seconds) ||
    floor !== floorText(volume.floor_micros) ||
    ofClass !== (volume.class ?? 'normal');
  const save = () =>
    runTask(`change policy of volume ${volume.name}`, async () => {
      // Only what was changed: a size that is shown rounded stays what it is.
      const body = {
        ...(compression !== volume.compression && { compression }),
        ...(isDeduped !== volume.dedupe && { dedupe: isDeduped }),
        ...(limit !== sizeText(volume.limit_bytes) && { limit_bytes: sizeOf(limit) }),
        ...(reserve !== sizeText(volume.reserve_bytes) && { reserve_bytes: sizeOf(reserve) }),
        ...(requests !== countText(volume.requests_per_second) && { requests_per_second: countOf(requests) }),
        ...(bandwidth !== sizeText(volume.bytes_per_second) && { bytes_per_second: sizeOf(bandwidth) }),
        ...(burst !== countText(volume.burst_seconds) && { burst_seconds: countOf(burst) }),
        ...(floor !== floorText(volume.floor_micros) && { floor_micros: floorOf(floor) }),
        ...(ofClass !== (volume.class ?? 'normal') && { class: ofClass }),
      };
      await api.put('/v1/volumes/{volume}/policy', { path: { volume: volume.name }, body });
    });
  return (
    <Panel title="Policy" note="Counts for what is written from now on; what is stored stays as it is.">
      <div className="form">
        <Choice label="Compression" value={compression} onChange={setCompression} options={COMPRESSIONS} />
        <Toggle label="Dedupe: store equal blocks of the pool once" isOn={isDeduped} onChange={setDeduped} />
        <SizeInput
          label="Limit of its own bytes"
          value={limit}
          onChange={setLimit}
          hint="Writes beyond it are refused. Empty: no limit."
        />
        <SizeInput
          label="Reserve"
          value={reserve}
          onChange={setReserve}
          hint="Kept of the pool for this volume. Empty: none."
        />
        <TextInput
          label="Requests a second"
          value={requests}
          onChange={setRequests}
          error={countError(requests)}
          inputMode="numeric"
          hint="What is more waits its turn. Empty: no limit."
        />
        <SizeInput
          label="Bytes a second"
          value={bandwidth}
          onChange={setBandwidth}
          hint="Read and written. Empty: no limit."
        />
        <TextInput
          label="Burst in seconds"
          value={burst}
          onChange={setBurst}
          error={countError(burst)}
          inputMode="numeric"
          hint="So much of its rates may be used at once after an idle time. Empty: none."
        />
        <TextInput
          label="Floor in milliseconds"
          value={floor}
          onChange={setFloor}
          error={floorError(floor)}
          inputMode="decimal"
          hint="Its requests should be answered in that time: while they are not, others are held back. Empty: none."
        />
        <Choice label="Class" value={ofClass} onChange={setClass} options={CLASSES} />
        <Facts of={[['Its own now', <Bytes of={volume.own_bytes} />], ...floorFacts(volume)]} />
        <ActionButton
          tone="primary"
          needs="volume_set"
          refusal={wrong ?? (!isChanged && 'Nothing is changed yet.')}
          onPress={() => void save()}
        >
          Save
        </ActionButton>
      </div>
    </Panel>
  );
}

function DisconnectClients({ volume, count }: { volume: string; count: number }) {
  const run = async () => {
    const done = await api.post('/v1/volumes/{volume}/disconnect', { path: { volume } });
    return `${plural(done.cut.length, 'client')} cut off, ${plural(done.remaining.length, 'user')} remain.`;
  };
  return (
    <FormDialog
      title={`Disconnect the clients of ${volume}`}
      task={`disconnect the clients of ${volume}`}
      submit="Disconnect"
      isDanger
      run={run}
    >
      <p className="loss">
        {plural(count, 'NBD client')} of volume {volume} and its snapshots lose the connection. Requests under way run
        to their end. Clients may come back.
      </p>
    </FormDialog>
  );
}

function Users({ volume }: { volume: Volume }) {
  const { data: users, error } = useGet('/v1/volumes/{volume}/users', { path: { volume: volume.name } }, 5);
  const clients = (users ?? []).filter((user) => user.kind === 'nbd');
  const columns: Column<VolumeUser>[] = [
    { id: 'kind', title: 'How', width: '8rem', sort: (user) => user.kind, render: (user) => <Badge tone="plain">{user.kind}</Badge> },
    {
      id: 'who',
      title: 'Who',
      render: (user) => (
        <>
          {user.who}
          {user.path && (
            <span className="sub">
              <code>{user.path}</code>
            </span>
          )}
        </>
      ),
    },
    { id: 'end', title: 'What ends it', hide: 1, render: (user) => user.action },
  ];
  return (
    <Panel
      title="Used by"
      note="Attachments, mounts, devices, processes and NBD clients. It is deleted only when nobody is here."
      aside={
        <ActionButton
          needs="volume_disconnect"
          refusal={clients.length === 0 && 'No NBD client is connected.'}
          onPress={() => openDialog(<DisconnectClients volume={volume.name} count={clients.length} />)}
        >
          Disconnect NBD clients…
        </ActionButton>
      }
    >
      {error && <Failure error={error} />}
      {!users && !error && <Loading what="Looking who uses it" />}
      {users?.length === 0 && (
        <Empty title="Nobody uses it" command={`ashlar attach ${volume.name} --mount /mnt/${volume.name} --format ext4`}>
          Attach it to this machine, or connect an NBD client to the array's socket.
        </Empty>
      )}
      {users && users.length > 0 && (
        <DataTable
          label={`Users of ${volume.name}`}
          rows={users}
          columns={columns}
          rowKey={(user) => `${user.kind} ${user.volume} ${user.who} ${user.path ?? ''}`}
        />
      )}
    </Panel>
  );
}

