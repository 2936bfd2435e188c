// The array at a glance: what it does, how full it is, what was saved, and what a person should look at.
import { useState } from 'react';
import { connection, figures } from '../api/live';
import { useGet } from '../api/resource';
import type { Pool, PoolSpace } from '../api/types';
import { acknowledge, useAlerts, type Alert } from '../state/alerts';
import { Link } from '../state/router';
import { useStore } from '../state/store';
import { Badge, Button, Bytes, Empty, Failure, Loading, Page, Panel, Time, Words } from '../ui/basics';
import { bytes, bytesPerSecond, count, micros, plural } from '../ui/format';
import { Icon } from '../ui/icons';
import { Performance, RangeTabs } from '../ui/performance';
import { SpaceBar } from '../ui/space-bar';
import { PoolBadge } from './states';

export function Dashboard() {
  const pools = useGet('/v1/pools');
  if (pools.data?.length === 0) {
    return (
      <Page title="Dashboard">
        <Empty
          title="No pool yet"
          command="ashlar pool create main --drive /srv/drive.img,size=10GiB"
        >
          A pool is made of drives: block devices, or files that stand for them. Volumes and databases live in it.
        </Empty>
      </Page>
    );
  }
  return (
    <Page title="Dashboard" actions={<RangeTabs />}>
      {pools.error && !pools.data && <Failure error={pools.error} />}
      <Now />
      <Alerts />
      <Panel title="Performance" note="All volumes together">
        <Performance object="array" />
      </Panel>
      {!pools.data && !pools.error && <Loading what="Asking for the pools" />}
      {pools.data?.map((pool) => (
        <PoolPanel key={pool.name} pool={pool} />
      ))}
    </Page>
  );
}

function Now() {
  const now = useStore(figures)?.array;
  const { state } = useStore(connection);
  const tiles: [string, string, string][] = [
    ['IOPS', count(now?.reads_per_second ?? 0), count(now?.writes_per_second ?? 0)],
    ['Bandwidth', bytesPerSecond(now?.read_bytes_per_second ?? 0), bytesPerSecond(now?.write_bytes_per_second ?? 0)],
    ['Latency p50', micros(now?.read_latency_micros?.p50), micros(now?.write_latency_micros?.p50)],
    ['Latency p99', micros(now?.read_latency_micros?.p99), micros(now?.write_latency_micros?.p99)],
  ];
  return (
    <div className={state === 'broken' ? 'tiles stale' : 'tiles'}>
      {tiles.map(([title, read, write]) => (
        <div className="tile" key={title}>
          <div className="tile-title">{title}</div>
          <div className="tile-pair">
            <span className="read">
              <small>read</small> {now ? read : '–'}
            </span>
            <span className="write">
              <small>write</small> {now ? write : '–'}
            </span>
          </div>
        </div>
      ))}
    </div>
  );
}

const SHOWN_ALERTS = 6;

function Alerts() {
  const alerts = useAlerts();
  const [isAll, setAll] = useState(false);
  const events = alerts.flatMap((alert) => (alert.event ? [alert.event] : []));
  const shown = isAll ? alerts : alerts.slice(0, SHOWN_ALERTS);
  return (
    <Panel
      className="alerts"
      title="Alerts"
      aside={
        events.length > 1 && <Button onPress={() => acknowledge(events)}>Acknowledge all events</Button>
      }
    >
      {alerts.length === 0 && (
        <p className="all-well">
          <Badge tone="good">Nothing to look at</Badge>
        </p>
      )}
      <ul>
        {shown.map((alert) => (
          <AlertLine key={alert.id} alert={alert} />
        ))}
      </ul>
      {alerts.length > SHOWN_ALERTS && (
        <Button tone="quiet" onPress={() => setAll(!isAll)}>
          {isAll ? 'Show fewer' : `Show all ${alerts.length}`}
        </Button>
      )}
    </Panel>
  );
}

function AlertLine({ alert }: { alert: Alert }) {
  const { event, level, link, object, text, todo } = alert;
  return (
    <li className={`alert tone-${level === 'error' ? 'bad' : 'warn'}`}>
      <Icon name={level} />
      <div className="alert-text">
        <span className="hidden-text">{level}: </span>
        {link ? <Link to={link}>{object}</Link> : <strong>{object}</strong>} <Words>{text}</Words>
        {todo && (
          <div className="todo">
            <Words>{todo}</Words>
          </div>
        )}
      </div>
      {alert.millis && (
        <span className="when hide-1">
          <Time millis={alert.millis} />
        </span>
      )}
      {event && (
        <Button tone="quiet" icon="check" label={`Acknowledge: ${object} ${text}`} onPress={() => acknowledge([event])} />
      )}
    </li>
  );
}

function PoolPanel({ pool }: { pool: Pool }) {
  const drives = pool.drives.filter((drive) => drive.state !== 'spare').length;
  const protection = { none: 'no drive may fail', single: 'one drive may fail', dual: 'two drives may fail' };
  return (
    <Panel
      title={
        <>
          Pool {pool.name} <PoolBadge pool={pool} />
        </>
      }
      note={`${plural(drives, 'drive')}, ${protection[pool.protection]} · ${plural(pool.volume_count, 'volume')}, ${plural(
        pool.snapshot_count,
        'snapshot',
      )}`}
      aside={
        <div className="fullness">
          <b>{pool.full_percent ?? 0} %</b> full
        </div>
      }
    >
      {pool.space ? <SpaceBar pool={pool.name} space={pool.space} /> : <p className="note">{pool.reason}</p>}
      {pool.space && <Reduction pool={pool.name} />}
    </Panel>
  );
}

/// A walk over the pool tells what was saved. It is asked for once, and again when a person wants.
function Reduction({ pool }: { pool: string }) {
  const space = useGet('/v1/pools/{pool}/space', { path: { pool }, query: { within_seconds: 10 } }, 3600);
  if (space.error) return <Failure title="What is saved is not known" error={space.error} />;
  if (!space.data) return <Loading what="Counting what is saved" />;
  return (
    <div className="reduction">
      <div className="reduction-head">
        <h3>What reduction saves</h3>
        <span className="note">
          counted <Time millis={space.atMillis} />
        </span>
        <Button tone="quiet" icon="refresh" label={`Count again what pool ${pool} saves`} onPress={space.reload} />
      </div>
      {space.data.basis === 'walk' ? <Figures space={space.data} /> : <p className="note">{space.data.reason}</p>}
    </div>
  );
}

export function savingsOf(space: PoolSpace) {
  const zero = space.volumes.reduce((sum, volume) => sum + (volume.zero_bytes ?? 0), 0);
  const sharing = space.sharing_saved_bytes ?? 0;
  const content = space.content_saved_bytes ?? 0;
  return { zero, clone: sharing - content, content, compression: space.compression_saved_bytes ?? 0 };
}

function Figures({ space }: { space: PoolSpace }) {
  const saved = savingsOf(space);
  const figures: [string, number, string][] = [
    ['Zero', saved.zero, 'zeroes that hosts wrote, never stored'],
    ['Shared by clone', saved.clone, 'what snapshots and clones have in common'],
    ['Shared by content', saved.content, 'equal blocks that dedupe stores once'],
    ['Compression', saved.compression, 'of what is left, by LZ4 and Zstandard'],
  ];
  return (
    <>
      <dl className="savings">
        {figures.map(([name, amount, note]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <Bytes of={amount} />
              <small>{note}</small>
            </dd>
          </div>
        ))}
      </dl>
      <p className="note">
        Hosts see {bytes(space.provisioned_bytes)} provisioned. Volumes and snapshots refer to{' '}
        {bytes(space.written_bytes)}; {bytes(space.parts.data_alive_bytes)} of data are stored.
      </p>
    </>
  );
}
