// IOPS, bandwidth and latency of one object, live or from the history.
import { useMemo } from 'react';
import { Radio, RadioGroup } from 'react-aria-components';
import { figures, recentOf, connection, KEPT_SECONDS } from '../api/live';
import { useAddress } from '../api/resource';
import { addressOf } from '../api/client';
import type { History, HistoryRange, Mark, Rates } from '../api/types';
import { useQuery } from '../state/router';
import { useStore } from '../state/store';
import { Chart, type Line } from './chart';
import { ActionButton, Failure, Time } from './basics';
import { csvOf } from './csv';
import { bytesPerSecond, count, micros, plural } from './format';
import { LatencyMap } from './latency';
import { saveFile } from './save';

type Range = 'live' | HistoryRange;
const RANGES: { id: Range; label: string; span: number }[] = [
  { id: 'live', label: 'Live', span: KEPT_SECONDS },
  { id: 'hour', label: 'Hour', span: 3600 },
  { id: 'day', label: 'Day', span: 86_400 },
  { id: 'week', label: 'Week', span: 604_800 },
];

interface Sample {
  millis: number;
  rates: Rates | null;
}

/// Points with an empty one wherever the array did not run, so that no line is drawn across.
function withGaps(history: History | undefined): Sample[] {
  const samples: Sample[] = [];
  if (!history) return samples;
  let before = 0;
  for (const { unix_millis, rates } of history.points) {
    if (before > 0 && unix_millis - before > 1500 * history.step_seconds) {
      samples.push({ millis: before + 1000 * history.step_seconds, rates: null });
    }
    samples.push({ millis: unix_millis, rates });
    before = unix_millis;
  }
  return samples;
}

/// The last minutes: seconds that this page has heard, before them what the history knows.
function liveSamples(object: string, history: History | undefined): Sample[] {
  const seconds: Sample[] = recentOf(object);
  const from = seconds.length > 0 ? seconds[0].millis : Infinity;
  const oldest = Math.min(from, Date.now()) - KEPT_SECONDS * 1000;
  const before = withGaps(history).filter(({ millis }) => millis < from && millis > oldest);
  return [...before, ...seconds];
}

function line(label: string, colour: string, samples: Sample[], value: (rates: Rates) => number | null, isDashed = false): Line {
  return { label, colour, isDashed, values: samples.map(({ rates }) => (rates ? value(rates) : null)) };
}

function linesOf(samples: Sample[]) {
  return {
    times: samples.map(({ millis }) => millis / 1000),
    iops: [
      line('read', '--read', samples, (rates) => rates.reads_per_second),
      line('write', '--write', samples, (rates) => rates.writes_per_second),
    ],
    bandwidth: [
      line('read', '--read', samples, (rates) => rates.read_bytes_per_second),
      line('write', '--write', samples, (rates) => rates.write_bytes_per_second),
    ],
    readLatency: [
      line('p50', '--read', samples, (rates) => rates.read_latency_micros?.p50 ?? null),
      line('p99', '--read', samples, (rates) => rates.read_latency_micros?.p99 ?? null, true),
    ],
    writeLatency: [
      line('p50', '--write', samples, (rates) => rates.write_latency_micros?.p50 ?? null),
      line('p99', '--write', samples, (rates) => rates.write_latency_micros?.p99 ?? null, true),
    ],
  };
}

export function RangeTabs() {
  const [range, setRange] = useQuery('range');
  return (
    <RadioGroup
      className="range-list"
      aria-label="Time that the charts show"
      orientation="horizontal"
      value={range || 'live'}
      onChange={(id) => setRange(id === 'live' ? '' : id)}
    >
      {RANGES.map(({ id, label }) => (
        <Radio key={id} value={id} className="range-tab">
          {label}
        </Radio>
      ))}
    </RadioGroup>
  );
}

/// How often the question for marks begins later: a new question is a new address.
const SINCE_MILLIS = 600_000;
const NO_MARKS: Mark[] = [];
const LISTED_MARKS = 50;

/// The marks of the time that charts show, the oldest first.
function useMarks(object: string, span: number): Mark[] {
  const since = Math.floor((Date.now() - span * 1000) / SINCE_MILLIS) * SINCE_MILLIS;
  const volume = object.startsWith('volume:') ? object.slice('volume:'.length) : undefined;
  const address = addressOf('/v1/marks', { query: { since_unix_millis: since, volume } });
  return useAddress<Mark[]>(address, 30).data ?? NO_MARKS;
}

/// The same as what stands at the lines on the charts, for whoever has no pointer.
function MarkList({ marks }: { marks: Mark[] }) {
  if (marks.length === 0) return null;
  return (
    <details className="mark-list">
      <summary>{plural(marks.length, 'mark')} on the time line</summary>
      <ul>
        {marks
          .slice(-LISTED_MARKS)
          .reverse()
          .map((mark) => (
            <li key={mark.id}>
              <Time millis={mark.unix_millis} as="clock" /> {mark.text}
            </li>
          ))}
      </ul>
    </details>
  );
}

export function Performance({ object }: { object: string }) {
  const [query] = useQuery('range');
  const range = RANGES.find(({ id }) => id === query) ?? RANGES[0];
  const now = useStore(figures);
  const { state } = useStore(connection);
  const kept = range.id === 'live' ? 'hour' : range.id;
  const address = `/v1/history?object=${encodeURIComponent(object)}&range=${kept}`;
  const history = useAddress<History>(address, range.id === 'week' ? 300 : range.id === 'day' ? 60 : 10);
  const isLive = range.id === 'live';
  const tick = isLive ? now : null;
  const samples = useMemo(
    () => (isLive ? liveSamples(object, history.data) : withGaps(history.data)),
    [object, isLive, tick, history.data],
  );
  const lines = useMemo(() => linesOf(samples), [samples]);
  const isStale = isLive && state === 'broken';
  const marks = useMarks(object, range.span);
  const same = { times: lines.times, span: range.span, isStale, marks };
  return (
    <>
      {history.error && !isLive && <Failure title="No history" error={history.error} />}
      <div className="charts">
        <Chart title="IOPS" unit="count" format={count} lines={lines.iops} {...same} />
        <Chart title="Bandwidth" unit="bytes" format={bytesPerSecond} lines={lines.bandwidth} {...same} />
        <Chart title="Read latency" unit="micros" format={micros} lines={lines.readLatency} {...same} />
        <Chart title="Write latency" unit="micros" format={micros} lines={lines.writeLatency} {...same} />
      </div>
      <MarkList marks={marks} />
      <div className="export">
        <ActionButton
          refusal={samples.length === 0 && 'There are no figures of this time.'}
          onPress={() => saveFile(csvOf(samples), 'text/csv', `${object.replace(':', '-')}-${range.id}.csv`)}
        >
          Export
        </ActionButton>
        <span className="note">What the four charts show, as comma-separated values.</span>
      </div>
      <LatencyMap object={object} range={kept} />
    </>
  );
}
