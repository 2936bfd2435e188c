// A chart over time: lines with their newest values, or those under the pointer, in words beside them.
import { useEffect, useLayoutEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Mark } from '../api/types';
import { repaint } from '../state/theme';
import { useStore } from '../state/store';
import { axisTime, shortTime } from './format';
import { markLines, placeLines } from './marks';

export interface Line {
  label: string;
  /// A custom property of the colour, as `--read`.
  colour: string;
  isDashed?: boolean;
  values: (number | null)[];
}

interface ChartProps {
  title: string;
  note?: string;
  unit: 'count' | 'bytes' | 'micros';
  format: (value: number) => string;
  /// Seconds since 1970, one for each value.
  times: number[];
  lines: Line[];
  /// Seconds that the chart shows, up to now.
  span: number;
  isStale?: boolean;
  height?: number;
  /// Moments that are marked, the oldest first.
  marks?: Mark[];
}

const NO_MARKS: Mark[] = [];

const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);

function colourOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || '#888';
}

function drawMarks(plot: uPlot, marks: Mark[]): void {
  const x = (unixMillis: number) => plot.valToPos(unixMillis / 1000, 'x');
  placeLines(plot.over, markLines(marks, x, plot.over.clientWidth));
}

function options(
  props: ChartProps,
  width: number,
  onIndex: (index: number | null) => void,
  marks: () => Mark[],
): uPlot.Options {
  const axis = {
    stroke: colourOf('--muted'),
    grid: { stroke: colourOf('--grid'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  };
  return {
    width,
    height: props.height ?? 170,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: 'time' }, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: true, range: (plot) => rangeOf(plot, props.span) },
      y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.12 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 24,
        space: 70,
        values: (_plot, splits, _axis, _space, step) => splits.map((split) => axisTime(split, step)),
      },
      {
        ...axis,
        size: 62,
        space: 34,
        incrs: props.unit === 'bytes' ? BINARY : undefined,
        values: (_plot, splits) => splits.map((split) => props.format(split)),
      },
    ],
    series: [
      {},
      ...props.lines.map((line) => ({
        label: line.label,
        stroke: colourOf(line.colour),
        width: line.isDashed ? 1.25 : 1.75,
        dash: line.isDashed ? [4, 3] : undefined,
        points: { show: false },
      })),
    ],
    hooks: {
      setCursor: [(plot) => onIndex(plot.cursor.idx ?? null)],
      draw: [(plot) => drawMarks(plot, marks())],
    },
  };
}

function rangeOf(plot: uPlot, span: number): [number, number] {
  const times = plot.data[0];
  const last = times.length > 0 ? times[times.length - 1] : Date.now() / 1000;
  return [last - span, last];
}

export function Chart(props: ChartProps) {
  const { title, note, lines, times, format, isStale, marks = NO_MARKS } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [index, setIndex] = useState<number | null>(null);
  const marked = useRef(marks);
  marked.current = marks;
  const painted = useStore(repaint);
  const shape = lines.map((line) => line.label).join();
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const data = [times, ...lines.map((line) => line.values)] as uPlot.AlignedData;
    const made = new uPlot(options(props, element.clientWidth, setIndex, () => marked.current), data, element);
    plot.current = made;
    const sizes = new ResizeObserver(() => {
      if (element.clientWidth > 0) made.setSize({ width: element.clientWidth, height: props.height ?? 170 });
    });
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      made.destroy();
      plot.current = null;
    };
    // New data are set below; only what the drawing itself depends on makes another.
  }, [shape, props.span, props.unit, painted]);
  useEffect(() => {
    plot.current?.setData([times, ...lines.map((line) => line.values)] as uPlot.AlignedData);
  }, [times, lines, marks]);
  const shown = index !== null && index < times.length ? index : times.length - 1;
  const isNow = shown === times.length - 1;
  return (
    <figure className={isStale ? 'chart stale' : 'chart'}>
      <figcaption>
        <span className="chart-title">{title}</span>
        {note && <span className="note">{note}</span>}
        <span className="chart-at">{!isNow && times[shown] ? shortTime(times[shown] * 1000) : ''}</span>
      </figcaption>
      <ul className="legend">
        {lines.map((line) => (
          <li key={line.label}>
            <span className={`swatch ${line.isDashed ? 'dashed' : ''}`} style={{ color: `var(${line.colour})` }} />
            <span>{line.label}</span> <b>{valueOf(line, shown, format)}</b>
          </li>
        ))}
      </ul>
      <div className="canvas" ref={box} aria-hidden="true" />
      {times.length === 0 && <p className="no-data">No figures for this time.</p>}
    </figure>
  );
}

function valueOf(line: Line, index: number, format: (value: number) => string): string {
  const value = line.values[index];
  return value === null || value === undefined ? '–' : format(value);
}
