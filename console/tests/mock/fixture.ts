// Each test has a mock of its own, and a page that is signed in to it. Afterwards all that the page asked of the API
// is compared with the API's description, and what the page complained of is an error.
import { test as base, expect, type Page } from '@playwright/test';
import { watch, type Watch } from '../watch';
// The mock and the check are plain JavaScript, so that they run without a build.
import { startMock } from '../../mock/server.mjs';
import { faults } from '../schema/openapi.mjs';

export interface Mock {
  origin: string;
  requests: string[];
  exchanges: { method: string; url: URL; status: number; body?: unknown }[];
  // Whatever the mock holds.
  world: any;
  address(path?: string): string;
  say(level: string, object: string, message: string): void;
  breakLive(): void;
  mendLive(): void;
  endSessions(): void;
  restart(): void;
  close(): Promise<void>;
}

interface Fixtures {
  options: { volumeCount?: number; isEmpty?: boolean; slowMillis?: number };
  mock: Mock;
  seen: Watch;
  open: (path: string) => Promise<Page>;
}

export const test = base.extend<Fixtures>({
  options: [{}, { option: true }],
  mock: async ({ options }, use) => {
    const mock = (await startMock(options)) as unknown as Mock;
    await use(mock);
    await mock.close();
    expect(mock.exchanges.flatMap((exchange) => faults(exchange as never))).toEqual([]);
  },
  seen: async ({ page }, use) => {
    const seen = watch(page);
    await use(seen);
    expect(seen.problems).toEqual([]);
  },
  open: async ({ page, mock, seen }, use) => {
    void seen;
    await use(async (path) => {
      // The ticket is behind `#`, so behind the query of the path.
      await page.goto(mock.address(path));
      await expect(page.locator('h1').first()).toBeVisible();
      await expect(page.locator('.connection.connected').first()).toBeAttached();
      return page;
    });
  },
});

export { expect };
