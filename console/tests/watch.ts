// Watches a page while it is tested: no error in the console, no request to anywhere else.
import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';

export const WIDE = { width: 1280, height: 900 };
export const NARROW = { width: 390, height: 844 };

export const PAGES = [
  ['dashboard', '/'],
  ['databases', '/databases'],
  ['database', '/databases/prod'],
  ['volumes', '/volumes'],
  ['volume', '/volumes/prod-data'],
  ['volume-snapshots', '/volumes/docs?tab=snapshots'],
  ['volume-policy', '/volumes/mail?tab=policy'],
  ['volume-users', '/volumes/mail?tab=users'],
  ['snapshots', '/snapshots'],
  ['schedules', '/snapshots/schedules'],
  ['drives', '/drives'],
  ['events', '/events'],
  ['jobs', '/jobs'],
  ['lab', '/lab'],
  ['lab-paper', '/lab/emc'],
  ['lab-result', '/lab/emc?part=headline'],
  ['hosts', '/hosts'],
  ['clients', '/clients'],
  ['settings', '/settings'],
  ['access', '/settings/access'],
] as const;

export interface Watch {
  problems: string[];
  /// What a test does on purpose, as an answer 409, is no problem.
  allowed: RegExp[];
}

export function watch(page: Page): Watch {
  const seen: Watch = { problems: [], allowed: [] };
  const note = (text: string) => {
    if (!seen.allowed.some((pattern) => pattern.test(text))) seen.problems.push(text);
  };
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') note(`console: ${message.text()}`);
  });
  // The console says only that there was one.
  page.on('response', (answer) => {
    if (answer.status() >= 400) note(`status of ${answer.status()}: ${answer.request().method()} ${answer.url()}`);
  });
  page.on('pageerror', (error) => note(`page: ${error.stack ?? error.message}`));
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.protocol === 'data:') return;
    if (url.hostname !== '127.0.0.1' && url.hostname !== 'localhost') note(`request outside: ${request.url()}`);
  });
  return seen;
}

/// No serious finding of axe, and nothing wider than the window.
export async function expectAccessible(page: Page): Promise<void> {
  const found = await new AxeBuilder({ page }).analyze();
  const serious = found.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`);
  expect(serious).toEqual([]);
}

export async function expectFits(page: Page): Promise<void> {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(wide, 'pixels that the page is wider than the window').toBeLessThanOrEqual(0);
}
