// Requests per second of one volume over the last minute. It draws itself: no row is rendered anew for it.
import { useEffect, useRef } from 'react';
import { figures, sparkOf } from '../api/live';

const WIDTH = 96;
const HEIGHT = 24;
const SECONDS = 60;

function points(values: number[]): string {
  const top = Math.max(1, ...values);
  const step = WIDTH / (SECONDS - 1);
  const from = SECONDS - values.length;
  return values
    .map((value, index) => `${((from + index) * step).toFixed(1)},${(HEIGHT - 1.5 - (value / top) * (HEIGHT - 4)).toFixed(1)}`)
    .join(' ');
}

export function Sparkline({ volume }: { volume: string }) {
  const line = useRef<SVGPolylineElement>(null);
  useEffect(() => {
    const draw = () => line.current?.setAttribute('points', points(sparkOf(volume, SECONDS)));
    draw();
    return figures.subscribe(draw);
  }, [volume]);
  return (
    <svg className="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" focusable="false">
      <polyline ref={line} />
    </svg>
  );
}
