// `mock`: against the mock of the API; `real`: against a running array; `shots`: pictures of every page.
import { existsSync } from 'node:fs';
import { defineConfig } from '@playwright/test';

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = process.env.CHROMIUM ?? BROWSERS.find(existsSync);

export default defineConfig({
  testDir: 'tests',
  workers: Number(process.env.WORKERS ?? 2),
  timeout: 60_000,
  expect: { timeout: 10_000 },
  reporter: [['list']],
  use: {
    browserName: 'chromium',
    // Root has no sandbox in a container; the pages are our own.
    launchOptions: { executablePath, args: ['--no-sandbox'] },
    trace: process.env.TRACE ? 'retain-on-failure' : 'off',
  },
  projects: [
    { name: 'mock', testDir: 'tests/mock' },
    { name: 'real', testDir: 'tests/real', workers: 1 },
    { name: 'shots', testDir: 'tests/shots' },
  ],
});
