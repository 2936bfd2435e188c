// What needs no browser: the stream's reader, sizes, times, tickets.
import { expect, test } from '@playwright/test';
import { MessageReader, type Message } from '../../src/api/sse';
import { sums, within } from '../../src/ui/classes';
import { csvOf } from '../../src/ui/csv';
import { ago, bytes, count, duration, micros, parseSize } from '../../src/ui/format';
import { markLines, wordsOf } from '../../src/ui/marks';
import { told } from '../../src/ui/shares';
import { NO_RATES } from '../../src/api/types';

test('a stream is read in whatever pieces it comes', () => {
  const text = ': keep-alive\n\nevent: hello\r\ndata: {"a":1}\r\n\r\nid: b:7\nevent: event\ndata: x\ndata: y\n\n';
  for (let size = 1; size < text.length; size += 1) {
    const heard: Message[] = [];
    const reader = new MessageReader((message) => heard.push(message));
    for (let at = 0; at < text.length; at += size) reader.push(text.slice(at, at + size));
    expect(heard).toEqual([
      { event: 'hello', data: '{"a":1}', id: undefined },
      { event: 'event', data: 'x\ny', id: 'b:7' },
    ]);
  }
});

test('sizes are read as people write them, and no others', () => {
  expect(parseSize('64 GiB')).toBe(64 * 2 ** 30);
  expect(parseSize('1.5t')).toBe(1.5 * 2 ** 40);
  expect(parseSize('512')).toBe(512);
  expect(parseSize('10,485,760 bytes')).toBe(10_485_760);
  for (const wrong of ['', 'GiB', '-1', '1 GX', '1..2', '9e99P']) expect(parseSize(wrong)).toBe(null);
});

test('requests by class are added up, and shares of them found', () => {
  const step = (reads: number[]) => ({ unix_millis: 0, reads, writes: [] });
  const latencies = {
    object: 'array',
    range: 'hour' as const,
    step_seconds: 10,
    bounds_micros: [16, 32, 64],
    steps: [step([0, 90]), step([1, 8, 0, 1])],
  };
  expect(sums(latencies, 'reads')).toEqual([1, 98, 0, 1]);
  expect([0.5, 0.99, 1].map((share) => within(sums(latencies, 'reads'), share))).toEqual([1, 1, 3]);
  expect(within(sums(latencies, 'writes'), 0.99)).toBe(null);
});

test('marks that lie close together are one line, as bad as the worst of them', () => {
  const mark = (at: number, level?: 'warning' | 'error') =>
    ({ id: String(at), kind: 'event' as const, unix_millis: at, text: `at ${at}`, level });
  const marks = [mark(-5), mark(10), mark(13, 'error'), mark(15, 'warning'), mark(16), mark(100), mark(101)];
  const lines = markLines(marks, (millis) => millis, 100);
  expect(lines.map(({ x, level, said }) => [x, level, said.length])).toEqual([
    [10, 'error', 3],
    [16, 'info', 1],
    [100, 'info', 1],
  ]);
  expect(wordsOf(lines[0])).toMatch(/at 10\n.*at 13\n.*at 15$/);
  const many = markLines(Array.from({ length: 12 }, () => mark(1)), () => 1, 100);
  expect(wordsOf(many[0])).toMatch(/and 4 more$/);
});

test('what charts show is a line of a file for each time, and nothing where the array did not run', () => {
  const rates = { ...NO_RATES, writes_per_second: 12.5, write_latency_micros: { p50: 100, p99: 900, max: 1000 } };
  const millis = Date.UTC(2026, 10, 28, 13, 5, 7, 400);
  const [names, line, rest] = csvOf([{ millis: millis - 10, rates: null }, { millis, rates }]).split('\n');
  expect(line).toBe('2026-11-28T13:05:07Z,0.000,12.500,0.000,0.000,0.000,0.000,,,,100,900,1000');
  expect(names.split(',').length).toBe(line.split(',').length);
  expect(names).toMatch(/^time,reads_per_second,writes_per_second,.*,write_latency_max_micros$/);
  expect(rest).toBe('');
});

test('requests of a volume are told as shares of all', () => {
  const none = { count: 0, sequential_count: 0, sizes: [] };
  const idle = { volume: 'db', reads: none, writes: none, unmap_count: 0, write_zeroes_count: 0, flush_count: 0 };
  expect(told(idle)).toBe('No request was counted.');
  const sizes = [{ up_to_bytes: 4096, count: 1 }, { up_to_bytes: 8192, count: 199 }];
  const busy = { ...idle, reads: { count: 200, sequential_count: 1, sizes }, flush_count: 200 };
  expect(told(busy)).toBe(
    'Of its requests are 50 % reads, 50 % flushes. Most reads have up to 8 KiB (100 %), <1 % are sequential.',
  );
});

test('numbers have sensible digits', () => {
  expect([0, 1023, 1024, 1536, 85 * 2 ** 30, 1.999 * 2 ** 40, -4096].map(bytes)).toEqual(
    ['0 B', '1023 B', '1 KiB', '1.5 KiB', '85 GiB', '2 TiB', '−4 KiB'],
  );
  expect([0, 0.4, 12.3, 1234, 25_600].map(count)).toEqual(['0', '0.4', '12', '1,234', '25.6k']);
  expect([null, 40, 1250, 2_100_000].map(micros)).toEqual(['–', '40 µs', '1.25 ms', '2.1 s']);
  expect([0.25, 59, 90, 7200, 86_400 * 3 + 7200].map(duration)).toEqual(['0.25 s', '59 s', '1 min 30 s', '2 h', '3 d 2 h']);
  expect(ago(0, 61_000)).toBe('1 min 1 s ago');
  expect(ago(61_000, 0)).toBe('in 1 min 1 s');
});
