// Marks of the time line as charts show them: thin lines; those that lie close together are one.
import type { Mark } from '../api/types';
import { shortTime } from './format';

export interface MarkLine {
  /// From the left end of the chart, in pixels.
  x: number;
  /// The worst of its marks: what draws the eye.
  level: 'info' | 'warning' | 'error';
  said: string[];
}

/// Pixels that make two lines of two marks.
const APART = 6;
/// More than these are counted and not told.
const SAID_MAX = 8;
const LEVELS = ['info', 'warning', 'error'] as const;

/// The lines of marks, the oldest first, on a chart that is so wide.
export function markLines(marks: Mark[], x: (unixMillis: number) => number, width: number): MarkLine[] {
  const lines: MarkLine[] = [];
  for (const mark of marks) {
    const at = x(mark.unix_millis);
    if (at < 0 || at > width) continue;
    const said = `${shortTime(mark.unix_millis)}  ${mark.text}`;
    const level = mark.level ?? 'info';
    const last = lines[lines.length - 1];
    if (!last || at - last.x >= APART) {
      lines.push({ x: at, level, said: [said] });
      continue;
    }
    last.said.push(said);
    if (LEVELS.indexOf(level) > LEVELS.indexOf(last.level)) last.level = level;
  }
  return lines;
}

/// What a line says when the pointer is on it.
export function wordsOf({ said }: MarkLine): string {
  const more = said.length - SAID_MAX;
  const told = more > 0 ? [...said.slice(0, SAID_MAX), `and ${more} more`] : said;
  return told.join('\n');
}

function newElement(over: HTMLElement): HTMLElement {
  const element = document.createElement('div');
  element.append(document.createElement('span'));
  over.append(element);
  return element;
}

/// Puts the lines over a chart. Elements stay, so that what is being read does not flicker.
export function placeLines(over: HTMLElement, lines: MarkLine[]): void {
  const old = [...over.querySelectorAll<HTMLElement>('.chart-mark')];
  lines.forEach((line, index) => {
    const element = old[index] ?? newElement(over);
    const side = line.x > over.clientWidth / 2 ? 'to-left' : 'to-right';
    element.className = `chart-mark ${line.level} ${side}`;
    element.style.left = `${line.x}px`;
    const words = element.firstElementChild;
    if (words) words.textContent = wordsOf(line);
  });
  for (const element of old.slice(lines.length)) element.remove();
}
