// How long requests took: when (a heat map) and how often (a histogram), of one object and range.
import { useEffect, useRef } from 'react';
import { useAddress } from '../api/resource';
import type { HistoryRange, Latencies } from '../api/types';
import { repaint } from '../state/theme';
import { useStore } from '../state/store';
import { Failure } from './basics';
import { sums, within, type Kind } from './classes';
import { axisTime, count, micros, whole } from './format';

const SPANS: Record<HistoryRange, number> = { hour: 3600, day: 86_400, week: 604_800 };
const HEIGHT = 150;
const LABEL_WIDTH = 62;

/// The classes that somebody needed, with one more on either side.
function shownClasses(latencies: Latencies): [number, number] {
  const used = latencies.steps.flatMap(({ reads, writes }) =>
    [reads, writes].flatMap((counts) => counts.flatMap((found, index) => (found > 0 ? [index] : []))),
  );
  if (used.length === 0) return [0, 0];
  const lowest = used.reduce((low, index) => Math.min(low, index));
  const highest = used.reduce((high, index) => Math.max(high, index));
  return [Math.max(0, lowest - 1), Math.min(latencies.bounds_micros.length, highest + 1)];
}

function endOf(latencies: Latencies, index: number): string {
  const bound = latencies.bounds_micros[index];
  return bound === undefined ? 'more' : micros(bound);
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || '#888';
}

function draw(canvas: HTMLCanvasElement, latencies: Latencies, kind: Kind): void {
  const width = canvas.clientWidth;
  const scale = window.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = HEIGHT * scale;
  const paper = canvas.getContext('2d');
  if (!paper || width <= LABEL_WIDTH) return;
  paper.scale(scale, scale);
  const [low, high] = shownClasses(latencies);
  const row = (HEIGHT - 22) / (high - low + 1);
  const end = Date.now();
  const span = SPANS[latencies.range] * 1000;
  const x = (millis: number) => LABEL_WIDTH + ((millis - end + span) / span) * (width - LABEL_WIDTH);
  const step = Math.max(1, ((latencies.step_seconds * 1000) / span) * (width - LABEL_WIDTH));
  const most = latencies.steps.reduce((found, one) => one[kind].reduce((a, b) => Math.max(a, b), found), 1);
  paper.fillStyle = colour(kind === 'reads' ? '--read' : '--write');
  for (const one of latencies.steps) {
    one[kind].forEach((found, index) => {
      if (found === 0) return;
      // The few slow ones are what one looks for: they must be seen beside the many.
      paper.globalAlpha = 0.15 + 0.85 * (Math.log1p(found) / Math.log1p(most));
      paper.fillRect(x(one.unix_millis) - step, (high - index) * row, step + 0.5, Math.max(1, row - 1));
    });
  }
  paper.globalAlpha = 1;
  paper.fillStyle = colour('--muted');
  paper.font = '11px system-ui, sans-serif';
  const every = Math.max(1, Math.ceil(16 / row));
  for (let index = low; index <= high; index += every) {
    paper.fillText(endOf(latencies, index), 0, (high - index) * row + row / 2 + 4);
  }
  for (const share of [0, 0.25, 0.5, 0.75]) {
    const at = end - span * (1 - share);
    paper.fillText(axisTime(at / 1000, span / 4000), x(at), HEIGHT - 6);
  }
}

function HeatMap({ latencies, kind }: { latencies: Latencies; kind: Kind }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painted = useStore(repaint);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const paint = () => draw(element, latencies, kind);
    paint();
    const sizes = new ResizeObserver(paint);
    sizes.observe(element);
    return () => sizes.disconnect();
  }, [latencies, kind, painted]);
  return <canvas ref={canvas} className="heat" style={{ height: HEIGHT }} aria-hidden="true" />;
}

function Histogram({ latencies }: { latencies: Latencies }) {
  const [low, high] = shownClasses(latencies);
  const [reads, writes] = [sums(latencies, 'reads'), sums(latencies, 'writes')];
  const most = Math.max(1, ...reads, ...writes);
  const bar = (found: number, name: string) => (
    <td>
      <span className="bar" style={{ width: `${(found / most) * 70}%`, background: `var(${name})` }} />
      <span title={whole(found)}>{found > 0 ? count(found) : ''}</span>
    </td>
  );
  const classes = Array.from({ length: high - low + 1 }, (_, number) => low + number);
  return (
    <table className="histogram">
      <caption className="chart-title">How many took how long</caption>
      <thead>
        <tr>
          <th scope="col">below</th>
          <th scope="col">reads</th>
          <th scope="col">writes</th>
        </tr>
      </thead>
      <tbody>
        {classes.map((index) => (
          <tr key={index}>
            <th scope="row">{endOf(latencies, index)}</th>
            {bar(reads[index], '--read')}
            {bar(writes[index], '--write')}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const TITLES: Record<Kind, string> = { reads: 'Read latency over time', writes: 'Write latency over time' };

function said(latencies: Latencies, kind: Kind): string {
  const counts = sums(latencies, kind);
  const most = within(counts, 0.99);
  return most === null ? 'none' : `99 of 100 below ${endOf(latencies, most)}`;
}

export function LatencyMap({ object, range }: { object: string; range: HistoryRange }) {
  const address = `/v1/latencies?object=${encodeURIComponent(object)}&range=${range}`;
  const { data, error } = useAddress<Latencies>(address, range === 'hour' ? 10 : 60);
  if (error && !data) return <Failure title="No latencies" error={error} />;
  if (!data) return null;
  if (data.steps.length === 0) return <p className="note">No requests in this time.</p>;
  return (
    <div className="charts">
      {(['reads', 'writes'] as const).map((kind) => (
        <figure key={kind} className="chart">
          <figcaption>
            <span className="chart-title">{TITLES[kind]}</span>
            <span className="note">{said(data, kind)}</span>
          </figcaption>
          <HeatMap latencies={data} kind={kind} />
        </figure>
      ))}
      <Histogram latencies={data} />
    </div>
  );
}
