// Against a running array: ASHLAR_CONSOLE_URL is the address that `ashlar console` printed just before, with its
// ticket. The array has a pool of protection with drives as files, a volume `docs` that is not attached, a database
// `prod` that runs, some snapshots and load; ASHLAR_NEW_DRIVE is a path for a new drive (a file that is made), with
// ASHLAR_NEW_DRIVE_SIZE. Nothing else is assumed of it.
import { expect, test, type BrowserContext, type Page } from '@playwright/test';
import { expectAccessible, expectFits, NARROW, watch, WIDE, type Watch } from '../watch';

const address = process.env.ASHLAR_CONSOLE_URL ?? '';
const newDrive = process.env.ASHLAR_NEW_DRIVE ?? '';
const name = `console-${Date.now().toString(36)}`;

test.describe.configure({ mode: 'serial' });
test.skip(address === '', 'ASHLAR_CONSOLE_URL is not set: the address that `ashlar console` prints');

let context: BrowserContext;
let page: Page;
let seen: Watch;

// A ticket is good once, and the session is the tab's: all tests share one.
test.beforeAll(async ({ browser }) => {
  context = await browser.newContext({ viewport: WIDE });
  page = await context.newPage();
  seen = watch(page);
  await page.goto(address);
  await expect(page.locator('.connection.connected').first()).toBeAttached({ timeout: 20_000 });
});

test.afterEach(() => {
  expect(seen.problems).toEqual([]);
  seen.allowed = [];
});

test.afterAll(async () => {
  await context?.close();
});

async function go(path: string): Promise<void> {
  await page.goto(new URL(`/console${path}`, address).href);
  await expect(page.locator('h1').first()).toBeVisible();
  await expect(page.locator('.connection.connected').first()).toBeAttached();
}

const PATHS = [
  '/', '/databases', '/databases/prod', '/volumes', '/volumes/docs', '/volumes/docs?tab=snapshots',
  '/volumes/docs?tab=policy', '/volumes/docs?tab=users', '/snapshots', '/snapshots/schedules', '/drives', '/events',
  '/hosts', '/clients', '/settings',
];

for (const [width, size] of Object.entries({ 1280: WIDE, 390: NARROW })) {
  test(`every page at ${width} pixels`, async () => {
    test.setTimeout(600_000);
    await page.setViewportSize(size);
    for (const path of PATHS) {
      await go(path);
      await expect(page.locator('.loading')).toHaveCount(0, { timeout: 30_000 });
      await page.waitForTimeout(1500);
      const picture = path.replace(/\W+/g, '-').replace(/^-|-$/g, '') || 'dashboard';
      await page.screenshot({ path: `shots/real-${picture}-${width}.png`, fullPage: true });
      await expectFits(page);
      await expectAccessible(page);
    }
    await page.setViewportSize(WIDE);
  });
}

test('the policy of the page lets nothing in from outside', async () => {
  const answer = await page.request.get(new URL('/console/', address).href);
  const policy = answer.headers()['content-security-policy'];
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("script-src 'self'");
  expect(policy).not.toContain('unsafe');
});

test('live figures move under load', async () => {
  await go('/');
  const tile = page.locator('.tile').first();
  await expect(tile).toContainText(/[1-9]/, { timeout: 20_000 });
  const before = await tile.textContent();
  await expect(tile).not.toHaveText(before ?? '', { timeout: 10_000 });
});

test('the parts of each pool sum to its physical size', async () => {
  await go('/');
  for (const legend of await page.locator('.space-legend').all()) {
    const exact = (titles: (string | null)[]) =>
      titles.map((title) => Number((title ?? '').replace(/\D/g, ''))).reduce((sum, one) => sum + one, 0);
    const titles = (selector: string) =>
      legend.locator(selector).evaluateAll((all) => all.map((one) => one.getAttribute('title')));
    expect(exact(await titles('li:not(.sum) [title$="bytes"]'))).toBe(exact(await titles('li.sum [title$="bytes"]')));
  }
});

test('a volume is created, gets a snapshot, is cloned and deleted', async () => {
  await go('/volumes');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill(name);
  await page.getByRole('textbox', { name: 'Size' }).fill('1 GiB');
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
  await expect(page.getByRole('heading', { level: 1, name })).toBeVisible();
  await page.getByRole('button', { name: 'Take a snapshot…' }).click();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill(`${name}.first`);
  await page.getByRole('button', { name: 'Take it' }).click();
  await page.getByRole('tab', { name: 'Snapshots' }).click();
  await expect(page.locator('td.c-name', { hasText: `${name}.first` })).toBeVisible();
  await expect(page.locator('td.c-back').first()).toContainText(/B/, { timeout: 20_000 });
  await page.getByRole('button', { name: `Actions for snapshot ${name}.first` }).click();
  await page.getByRole('menuitem', { name: 'Clone…' }).click();
  await page.getByLabel('Name of the clone').fill(`${name}-copy`);
  await page.getByRole('dialog').getByRole('button', { name: 'Clone', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1, name: `${name}-copy` })).toBeVisible();
  for (const one of [`${name}-copy`, name]) {
    await go(`/volumes/${one}`);
    await page.getByRole('button', { name: /More: actions/ }).click();
    await page.getByRole('menuitem', { name: 'Delete…' }).click();
    await page.getByLabel(`Type ${one} to confirm`).fill(one);
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await expect(page.getByRole('heading', { level: 1, name: 'Volumes' })).toBeVisible();
  }
  await go('/events');
  await page.getByLabel('Search object or message').fill(name);
  await expect(page.locator('.event').first()).toBeVisible();
});

test('a refusal of the array is shown with what to do', async () => {
  seen.allowed.push(/status of 4/);
  await go('/volumes');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('docs');
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
  await expect(page.getByRole('dialog').getByRole('alert')).toContainText('What to do');
  await page.getByRole('button', { name: 'Cancel' }).click();
});

test('the database is cloned, reached, reset and deleted', async () => {
  test.setTimeout(180_000);
  await go('/databases');
  await page.getByRole('button', { name: 'Actions for database prod', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Clone…' }).click();
  await page.getByLabel('Name of the clone').fill(name);
  await page.getByRole('dialog').getByRole('button', { name: 'Clone', exact: true }).click();
  await expect(page.locator('.tray')).toContainText('is done', { timeout: 60_000 });
  await go(`/databases/${name}`);
  await page.getByRole('button', { name: 'Show' }).click();
  await expect(page.locator('.command code').first()).toContainText(/^postgres(ql)?:\/\//);
  await page.getByRole('button', { name: /More: actions/ }).click();
  await page.getByRole('menuitem', { name: 'Reset…' }).click();
  await page.getByLabel(`Type ${name} to confirm`).fill(name);
  await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click();
  await expect(page.locator('.tray')).toContainText(`reset database ${name} is done`, { timeout: 60_000 });
  await page.getByRole('button', { name: /More: actions/ }).click();
  await page.getByRole('menuitem', { name: 'Delete…' }).click();
  await page.getByLabel(`Type ${name} to confirm`).fill(name);
  await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Databases' })).toBeVisible({ timeout: 60_000 });
});

test('a drive is replaced, and the alert of it ends', async () => {
  test.skip(newDrive === '', 'ASHLAR_NEW_DRIVE is not set');
  test.setTimeout(600_000);
  await go('/drives');
  await page.getByRole('button', { name: 'Replace a drive…' }).first().click();
  await page.getByRole('dialog').getByText(/^Drive 0, /).click();
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByLabel('Path of the new drive').fill(newDrive);
  await page.getByLabel('Make a file of this size').fill(process.env.ASHLAR_NEW_DRIVE_SIZE ?? '');
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByRole('button', { name: 'Replace it' }).click();
  await expect(page.getByText('Drive 0 has everything and is in service.')).toBeVisible({ timeout: 540_000 });
});

test('the session survives a reload, and ends when a person signs out', async () => {
  await go('/settings');
  await page.reload();
  await expect(page.getByRole('heading', { level: 1, name: 'Settings' })).toBeVisible();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await expect(page.getByLabel('Paste the address or its ticket')).toBeVisible();
});
