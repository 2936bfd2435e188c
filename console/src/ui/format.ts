// Numbers and times as people read them: binary units, three digits, local time.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const grouped = new Intl.NumberFormat('en-US');

function digits(value: number): string {
  if (value >= 100) return Math.round(value).toString();
  if (value >= 10) return value.toFixed(1).replace(/\.0$/, '');
  return value.toFixed(2).replace(/\.?0+$/, '');
}

export function bytes(count: number | null | undefined): string {
  if (count === null || count === undefined) return '–';
  let value = Math.abs(count);
  let unit = 0;
  while (value >= 1023.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const sign = count < 0 ? '−' : '';
  return `${sign}${unit === 0 ? Math.round(value) : digits(value)} ${UNITS[unit]}`;
}

export function exactBytes(count: number): string {
  return `${grouped.format(count)} bytes`;
}

export function bytesPerSecond(count: number): string {
  return `${bytes(count)}/s`;
}

/// A count, or a rate of counts: 0.5, 12, 1,234, 25.6k.
export function count(value: number): string {
  if (value >= 1_000_000) return `${digits(value / 1_000_000)}M`;
  if (value >= 10_000) return `${digits(value / 1000)}k`;
  if (value >= 10 || Number.isInteger(value)) return grouped.format(Math.round(value));
  return value < 0.05 ? '0' : value.toFixed(1);
}

/// A measured value with three digits, whatever its size.
export function figure(value: number): string {
  return Math.abs(value) >= 1000 ? grouped.format(Number(value.toPrecision(3))) : String(Number(value.toPrecision(3)));
}

export function whole(value: number): string {
  return grouped.format(value);
}

export function micros(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  if (value < 1000) return `${Math.round(value)} µs`;
  if (value < 1_000_000) return `${digits(value / 1000)} ms`;
  return `${digits(value / 1_000_000)} s`;
}

export function millis(value: number): string {
  return value < 1000 ? `${Math.round(value)} ms` : duration(value / 1000);
}

export function duration(seconds: number): string {
  if (seconds < 10) return `${digits(seconds)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = seconds / 60;
  if (minutes < 60) return two(minutes, 'min', 60, 's');
  if (minutes < 1440) return two(minutes / 60, 'h', 60, 'min');
  const days = minutes / 1440;
  return days < 730 ? two(days, 'd', 24, 'h') : `${digits(days / 365)} years`;
}

function two(value: number, unit: string, per: number, smaller: string): string {
  const first = Math.floor(value);
  // A little more, since 61 / 60 is a little less than it is.
  const second = Math.floor((value - first) * per + 1e-6);
  return first >= 10 || second === 0 ? `${first} ${unit}` : `${first} ${unit} ${second} ${smaller}`;
}

const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const clockShort = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const date = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });

export function fullTime(unixMillis: number): string {
  return full.format(unixMillis);
}

export function shortTime(unixMillis: number, nowMillis = Date.now()): string {
  const distance = Math.abs(nowMillis - unixMillis);
  const isSameDay = new Date(unixMillis).toDateString() === new Date(nowMillis).toDateString();
  if (isSameDay) return clock.format(unixMillis);
  if (distance < 300 * 86_400_000) return `${day.format(unixMillis)}, ${clockShort.format(unixMillis)}`;
  return date.format(unixMillis);
}

export function axisTime(unixSeconds: number, stepSeconds: number): string {
  const unixMillis = unixSeconds * 1000;
  if (stepSeconds < 60) return clock.format(unixMillis);
  if (stepSeconds < 86_400) return clockShort.format(unixMillis);
  return day.format(unixMillis);
}

/// How long ago, or in how long.
export function ago(unixMillis: number, nowMillis = Date.now()): string {
  const seconds = (nowMillis - unixMillis) / 1000;
  if (Math.abs(seconds) < 2) return 'just now';
  return seconds > 0 ? `${duration(Math.floor(seconds))} ago` : `in ${duration(Math.floor(-seconds))}`;
}

const SIZE = /^\s*([\d.,_ ]+?)\s*(?:([kmgtpe])(i?)b?|b|bytes)?\s*$/i;

/// Bytes of a size that a person typed, as `64 GiB` or `512M`; null: not a size. Units are binary.
export function parseSize(text: string): number | null {
  const found = SIZE.exec(text);
  if (!found) return null;
  const value = Number(found[1].replace(/[,_ ]/g, ''));
  if (!Number.isFinite(value) || found[1].trim() === '') return null;
  const power = found[2] ? 'kmgtpe'.indexOf(found[2].toLowerCase()) + 1 : 0;
  const size = value * 1024 ** power;
  return Number.isSafeInteger(Math.round(size)) ? Math.round(size) : null;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${whole(number)} ${number === 1 ? one : many}`;
}
