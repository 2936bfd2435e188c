// Every page at both widths: shown, accessible, no wider than the window, no complaint, nothing from outside.
import { expect, test } from './fixture';
import { expectAccessible, expectFits, NARROW, PAGES, WIDE } from '../watch';

for (const [width, size] of Object.entries({ 1280: WIDE, 390: NARROW })) {
  test.describe(`${width} pixels`, () => {
    test.use({ viewport: size });
    for (const [name, path] of PAGES) {
      test(name, async ({ page, open }) => {
        await open(path);
        await expect(page.locator('.loading')).toHaveCount(0);
        await expectFits(page);
        await expectAccessible(page);
      });
    }
  });
}

test('dark', async ({ page, open }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  for (const path of ['/', '/databases', '/drives']) {
    await open(path);
    await expect(page.locator('.loading')).toHaveCount(0);
    await expectAccessible(page);
  }
});

test('the switch of colours is kept', async ({ page, open }) => {
  await open('/settings');
  await page.getByText('Dark', { exact: true }).click();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
  await page.reload();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
});

test.describe('an array that nobody has used', () => {
  test.use({ options: { isEmpty: true } });
  const commands = {
    '/': 'ashlar pool create',
    '/databases': 'ashlar database create',
    '/volumes': 'ashlar volume create',
    '/snapshots': 'ashlar snapshot create',
    '/snapshots/schedules': 'ashlar schedule create',
    '/drives': 'ashlar pool create',
    '/hosts': 'ashlar export create',
    '/settings/access': 'ashlar user create',
    '/clients': 'ashlar attach',
    '/lab': 'ashlar lab run',
    '/events': 'ashlar events',
    '/jobs': 'ashlar pool scrub',
  };
  for (const [path, command] of Object.entries(commands)) {
    test(`${path} says how to begin`, async ({ page, open }) => {
      await open(path);
      await expect(page.getByText(command).first()).toBeVisible();
      await expectAccessible(page);
    });
  }
});

test('the navigation leads to every page and back', async ({ page, open }) => {
  await open('/');
  for (const name of ['Databases', 'Volumes', 'Drives', 'Snapshots', 'Events', 'Jobs', 'Lab', 'Hosts and exports', 'Clients and doors', 'Settings']) {
    await page.getByRole('navigation', { name: 'Pages', exact: true }).getByRole('link', { name }).click();
    await expect(page.getByRole('heading', { level: 1, name })).toBeVisible();
  }
  await page.goBack();
  await expect(page.getByRole('heading', { level: 1, name: 'Clients and doors' })).toBeVisible();
});

test.describe('narrow', () => {
  test.use({ viewport: NARROW });
  test('the other pages are behind More', async ({ page, open }) => {
    await open('/');
    await page.getByRole('button', { name: 'More' }).click();
    await page.getByRole('menuitem', { name: 'Events' }).click();
    await expect(page.getByRole('heading', { level: 1, name: 'Events' })).toBeVisible();
  });
});

test('the parts of the bar sum to the physical size', async ({ page, open, mock }) => {
  await open('/');
  const bar = page.locator('.space-bar').first();
  await expect(bar).toBeVisible();
  const grown = await bar.locator('.part').evaluateAll((parts) =>
    parts.reduce((sum, part) => sum + Number(getComputedStyle(part).flexGrow), 0),
  );
  expect(grown).toBeCloseTo(1, 5);
  const shown = await page.locator('.space-legend').first().locator('li:not(.sum) [title$="bytes"]').evaluateAll((all) =>
    all.reduce((sum, one) => sum + Number(one.getAttribute('title')!.replace(/\D/g, '')), 0),
  );
  expect(shown).toBe(mock.world.pools[0].space.physical_bytes);
});

test('reduction is told as four figures', async ({ page, open }) => {
  await open('/');
  for (const name of ['Zero', 'Shared by clone', 'Shared by content', 'Compression']) {
    await expect(page.locator('.savings').first().getByText(name, { exact: true })).toBeVisible();
  }
});

test('charts of the hour, the day and the week', async ({ page, open, mock }) => {
  await open('/');
  for (const range of ['Hour', 'Day', 'Week']) {
    await page.getByText(range, { exact: true }).click();
    await expect(page).toHaveURL(new RegExp(`range=${range.toLowerCase()}`));
    await expect(page.locator('.chart canvas').first()).toBeVisible();
    await expect(page.locator('.no-data')).toHaveCount(0);
  }
  expect(mock.requests.filter((one) => one === 'GET /v1/history').length).toBeGreaterThanOrEqual(3);
});

test('how long requests took is drawn over time, and told in numbers', async ({ page, open }) => {
  await open('/volumes/prod-data?range=day');
  const map = page.locator('figure', { hasText: 'Write latency over time' });
  await expect(map.locator('canvas')).toBeVisible();
  await expect(map).toContainText(/99 of 100 below [\d.]+ (µs|ms)/);
  const painted = await map.locator('canvas').evaluate((canvas: HTMLCanvasElement) => {
    const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
    return data.some((value) => value > 0);
  });
  expect(painted).toBe(true);
  await expect(page.locator('.histogram tbody tr').first()).toContainText(/µs|ms/);
});

test('what the requests of a volume look like is drawn, and told in words', async ({ page, open, mock }) => {
  await open('/volumes/prod-data');
  const panel = page.locator('section', { hasText: 'What its requests look like' });
  await expect(panel.getByRole('status')).toContainText('Of its requests are 66 % reads, 32 % writes');
  await expect(panel.getByRole('status')).toContainText('Most reads have up to 8 KiB (90 %), 14 % are sequential.');
  await expect(panel.locator('tr', { hasText: '128 KiB' })).toContainText('1.2M, 4 %');
  await panel.getByRole('button', { name: 'Count for 10 s' }).click();
  await expect(panel).toContainText('Counted for 10 seconds.');
  await panel.getByRole('button', { name: 'All since the start' }).click();
  await expect(panel).toContainText('Counted since the array started.');
  expect(mock.requests.filter((one) => one === 'GET /v1/volumes/prod-data/profile').length).toBeGreaterThanOrEqual(2);
});

test('figures change every second', async ({ page, open }) => {
  await open('/volumes');
  const cell = page.locator('tr', { hasText: 'prod-data' }).locator('.c-iops');
  const before = await cell.textContent();
  await expect(cell).not.toHaveText(before ?? '', { timeout: 5000 });
  await expect(page.locator('.sparkline polyline').first()).toHaveAttribute('points', /\d/);
});
