// Sign-in, the end of a session, a broken stream, a restarted array, and very many volumes.
import { expect, test } from './fixture';

test('the ticket is taken out of the address at once', async ({ page, mock, open }) => {
  await open('/drives');
  expect(new URL(page.url()).hash).toBe('');
  expect(page.url()).toBe(`${mock.origin}/console/drives`);
  await page.reload();
  await expect(page.getByRole('heading', { level: 1, name: 'Drives' })).toBeVisible();
});

test('without a ticket the page says how to get one, and takes a pasted address', async ({ page, mock, seen }) => {
  seen.allowed.push(/status of 401/);
  await page.goto(`${mock.origin}/console/volumes`);
  await expect(page.getByText('ashlar console', { exact: true })).toBeVisible();
  await page.getByLabel('Paste the address or its ticket').fill('http://127.0.0.1:1/console/#ticket=old');
  await page.getByRole('button', { name: 'Use the ticket' }).click();
  await expect(page.getByRole('alert')).toContainText('the ticket is used up');
  await page.getByLabel('Paste the address or its ticket').fill(mock.address());
  await page.getByRole('button', { name: 'Use the ticket' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Volumes' })).toBeVisible();
});

test('a session that ended is said, and another one goes on at the same page', async ({ page, mock, open, seen }) => {
  seen.allowed.push(/status of 401/, /ERR_/);
  await open('/databases');
  mock.endSessions();
  await expect(page.getByRole('heading', { name: 'Your session ended' })).toBeVisible({ timeout: 20_000 });
  await page.getByLabel('Paste the address or its ticket').fill('mock-ticket');
  await page.getByRole('button', { name: 'Use the ticket' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Databases' })).toBeVisible();
});

test('a broken stream is said, figures turn grey, and it comes back by itself', async ({ page, mock, open, seen }) => {
  seen.allowed.push(/ERR_/);
  await open('/');
  await expect(page.locator('.tile').first()).toContainText(/\d/);
  mock.breakLive();
  await expect(page.locator('.notice.broken')).toContainText('No connection since');
  await expect(page.locator('.chart.stale')).toHaveCount(4);
  mock.say('error', 'volume docs', 'said while nobody heard');
  mock.mendLive();
  await expect(page.locator('.notice.broken')).toHaveCount(0, { timeout: 20_000 });
  await expect(page.locator('.chart.stale')).toHaveCount(0);
  await expect(page.locator('.alert', { hasText: 'said while nobody heard' })).toBeVisible();
});

test('a restarted array is asked for everything anew', async ({ page, mock, open, seen }) => {
  seen.allowed.push(/ERR_/);
  await open('/volumes');
  await expect(page.getByRole('link', { name: 'docs', exact: true })).toBeVisible();
  mock.world.volumes.find((one: { name: string }) => one.name === 'docs').name = 'papers';
  mock.restart();
  await expect(page.getByRole('link', { name: 'papers', exact: true })).toBeVisible({ timeout: 8000 });
});

test('an event appears as it happens', async ({ page, mock, open }) => {
  await open('/events');
  mock.say('error', 'volume mail', 'a read failed: `fsck` it');
  await expect(page.locator('.event').first()).toContainText('a read failed');
  await page.getByRole('button', { name: /Level/ }).click();
  await page.getByRole('option', { name: 'Errors', exact: true }).click();
  await expect(page.locator('.event')).toHaveCount(2);
  await page.getByLabel('Search object or message').fill('mail');
  await expect(page.locator('.event')).toHaveCount(1);
});

test.describe('10,000 volumes', () => {
  test.use({ options: { volumeCount: 10_000 } });
  test('the table keeps few rows in the page, and follows scrolling, search and sorting', async ({ page, open }) => {
    await open('/volumes');
    await expect(page.locator('table').first()).toHaveAttribute('aria-rowcount', '10001');
    const rows = page.locator('tbody tr[aria-rowindex]');
    expect(await rows.count()).toBeLessThan(80);
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
    await expect(page.getByRole('link', { name: 'vm-10000' })).toBeVisible();
    expect(await rows.count()).toBeLessThan(80);
    // How long a jump to quite other rows takes until they are there: nine of ten are faster.
    const slow = await page.evaluate(async () => {
      const high = document.documentElement.scrollHeight;
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const times: number[] = [];
      for (let step = 0; step < 60; step += 1) {
        const begun = performance.now();
        window.scrollTo(0, (high * step) / 60);
        await frame();
        times.push(performance.now() - begun);
      }
      return times.sort((left, right) => left - right)[Math.floor(times.length * 0.9)];
    });
    test.info().annotations.push({ type: 'milliseconds of a jump', description: slow.toFixed(0) });
    console.log(`a jump within 10,000 volumes: ${slow.toFixed(0)} ms`);
    // Generous: on a machine that is busy with builds it took 352 ms, on two processors.
    expect(slow).toBeLessThan(1000);
    await page.getByLabel('Search by name').fill('vm-0999');
    await expect(page.getByText('10 volumes found')).toBeVisible();
    await page.getByLabel('Search by name').fill('');
    await page.getByRole('button', { name: 'IOPS' }).click();
    await expect(page.locator('th.c-iops')).toHaveAttribute('aria-sort', 'descending');
    await expect(rows.first()).toContainText(/prod-/);
  });
});
