// What can be done, what is refused, and what is said then.
import { readFileSync } from 'node:fs';
import { expect, test } from './fixture';
import { expectAccessible } from '../watch';

test('a volume is created, and shown', async ({ page, open, mock }) => {
  await open('/volumes');
  await page.getByRole('button', { name: 'Create' }).click();
  await expectAccessible(page);
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('fresh');
  await page.getByRole('textbox', { name: 'Size' }).fill('1.5 TiB');
  await expect(page.getByText('1,649,267,441,664 bytes')).toBeVisible();
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'fresh' })).toBeVisible();
  expect(mock.world.volumes.find((one: { name: string }) => one.name === 'fresh').size_bytes).toBe(1.5 * 2 ** 40);
});

test('a refusal says what happened and what to do', async ({ page, open, seen }) => {
  seen.allowed.push(/status of 409/);
  await open('/volumes');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('docs');
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
  const alert = page.getByRole('dialog').getByRole('alert');
  await expect(alert).toContainText('there is a volume docs already');
  await expect(alert).toContainText('What to do: take another name');
});

test('a size that no volume can have is refused while it is typed', async ({ page, open }) => {
  await open('/volumes');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('odd');
  await page.getByRole('textbox', { name: 'Size' }).fill('1000');
  await expect(page.getByText('A size is a multiple of 4096 bytes.')).toBeVisible();
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Create' })).toBeDisabled();
});

test('an attached volume may not be deleted, and the menu says why', async ({ page, open }) => {
  await open('/volumes');
  await page.getByRole('button', { name: 'Actions for volume docs', exact: true }).click();
  const item = page.getByRole('menuitem', { name: 'Delete…' });
  await expect(item).toHaveAttribute('aria-disabled', 'true');
  await expect(item).toContainText('It is attached as /dev/loop9: detach it first.');
});

test('a volume is deleted after its name is typed, and comes back', async ({ page, open }) => {
  await open('/volumes');
  await page.getByRole('button', { name: 'Actions for volume mail' }).click();
  await page.getByRole('menuitem', { name: 'Delete…' }).click();
  const remove = page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true });
  await expect(remove).toBeDisabled();
  await page.getByLabel('Type mail to confirm').fill('mai');
  await expect(remove).toBeDisabled();
  await page.getByLabel('Type mail to confirm').fill('mail');
  await remove.click();
  await expect(page.getByText('It can come back for 1 d')).toBeVisible();
  await page.locator('tr', { hasText: 'mail' }).getByRole('button', { name: 'Bring back' }).click();
  await expect(page.getByRole('link', { name: 'mail', exact: true })).toBeVisible();
});

test('the policy of a volume is changed, only what was changed', async ({ page, open, mock }) => {
  await open('/volumes/mail?tab=policy');
  await page.getByRole('button', { name: /Compression/ }).click();
  await page.getByRole('option', { name: /Zstandard/ }).click();
  await page.getByRole('button', { name: 'Save' }).click();
  await expect.poll(() => mock.world.volumes.find((one: { name: string }) => one.name === 'mail').compression).toBe('zstd');
  const sent = mock.exchanges.find(({ method, url }) => method === 'PUT' && url.pathname.endsWith('/policy'));
  expect(sent?.body).toEqual({ compression: 'zstd' });
});

test('a database is cloned: it shows that it runs, then how to reach it', async ({ page, open, mock }) => {
  mock.world.slowMillis = 2500;
  await open('/databases');
  await page.getByRole('button', { name: 'Actions for database prod', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Clone…' }).click();
  await page.getByLabel('Name of the clone').fill('feature');
  await page.getByRole('dialog').getByRole('button', { name: 'Clone', exact: true }).click();
  await expect(page.getByRole('dialog').getByRole('progressbar')).toBeVisible();
  await page.getByRole('button', { name: 'Close, it goes on' }).click();
  await expect(page.locator('.tray')).toContainText('clone database prod to feature runs');
  await expect(page.locator('.tray')).toContainText('is done');
  await expect(page.locator('.tray').getByRole('button', { name: 'Copy the connection string' })).toBeVisible();
  await expect(page.getByRole('row', { name: /feature/ })).toHaveAttribute('aria-level', '2');
});

test('only a clone is reset, and a database in the making waits', async ({ page, open }) => {
  await open('/databases');
  await page.getByRole('button', { name: 'Actions for database prod', exact: true }).click();
  await expect(page.getByRole('menuitem', { name: 'Reset…' })).toContainText('It is no clone');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Actions for database archive' }).click();
  await expect(page.getByRole('menuitem', { name: 'Clone…' })).toContainText('It is making');
});

test('a clone is reset after its name is typed', async ({ page, open, mock }) => {
  await open('/databases/dev');
  await page.getByRole('button', { name: /More: actions for database dev/ }).click();
  await page.getByRole('menuitem', { name: 'Reset…' }).click();
  await expect(page.getByRole('dialog')).toContainText('All that dev holds of its own is lost');
  await page.getByLabel('Type dev to confirm').fill('dev');
  await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click();
  await expect(page.locator('.tray')).toContainText('reset database dev is done');
  expect(mock.requests).toContain('POST /v1/databases/dev/reset');
});

test('a snapshot is proven', async ({ page, open }) => {
  await open('/databases/prod');
  await page.getByRole('button', { name: 'Prove…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Prove' }).click();
  await expect(page.locator('.tray')).toContainText(/proven, recovery 390 ms/);
});

test('the connection string is shown and copied when somebody wants it', async ({ page, open, mock, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await open('/databases/prod');
  expect(mock.requests).not.toContain('GET /v1/databases/prod/url');
  await page.getByRole('button', { name: 'Copy the connection string' }).click();
  await expect(page.getByText('Copied')).toBeVisible();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
    'postgres://postgres:secret@127.0.0.1:5433/postgres',
  );
});

test('what a selection gives back, and a held snapshot that may not be deleted', async ({ page, open, mock }) => {
  await open('/snapshots');
  const back = page.getByRole('button', { name: 'What will I get back?' });
  await expect(back).toHaveAttribute('aria-disabled', 'true');
  await page.getByLabel('Select docs.day-00').check();
  await page.getByLabel('Select docs.day-01').check();
  await back.click();
  await expect(page.getByRole('dialog')).toContainText('Comes back');
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  await page.getByLabel('Search by name').fill('before-upgrade');
  await page.getByLabel('Select before-upgrade').check();
  // It is disabled for what reads the page, and still says why when it is pressed.
  await page.getByRole('button', { name: 'Delete…' }).click({ force: true });
  await expect(page.getByText('A snapshot of the selection is held: release it first.')).toBeVisible();
  await page.getByRole('button', { name: 'Actions for snapshot before-upgrade' }).click();
  await page.getByRole('menuitem', { name: 'Release the hold' }).click();
  await expect.poll(() => mock.world.snapshots.find((one: { name: string }) => one.name === 'before-upgrade').hold).toBe(undefined);
});

test('a schedule is created, paused and run', async ({ page, open, mock }) => {
  await open('/snapshots/schedules');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('nightly');
  await page.getByRole('button', { name: /Of/ }).click();
  await page.getByRole('option', { name: 'dev', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
  await expect(page.locator('td.c-name', { hasText: 'nightly' })).toBeVisible();
  await page.getByRole('button', { name: 'Actions for schedule nightly' }).click();
  await page.getByRole('menuitem', { name: 'Pause' }).click();
  await expect(page.locator('td.c-name', { hasText: /nightly.*paused/ })).toBeVisible();
  await page.getByRole('button', { name: 'Actions for schedule nightly' }).click();
  await page.getByRole('menuitem', { name: 'Take a snapshot now' }).click();
  await expect(page.locator('.tray')).toContainText('is taken');
  expect(mock.requests).toContain('POST /v1/schedules/nightly/run');
});

test('a drive is replaced step by step', async ({ page, open, seen, mock }) => {
  seen.allowed.push(/status of 409/);
  await open('/drives');
  await page.getByRole('button', { name: 'Replace a drive…' }).first().click();
  await page.getByText('Drive 6, online').click();
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByLabel('Path of the new drive').fill('/dev/full');
  await page.getByRole('button', { name: 'Next' }).click();
  await expect(page.getByRole('dialog')).toContainText('serves until the new one has everything');
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Replace it' }).click();
  await expect(page.getByRole('alert')).toContainText('/dev/full holds an ext4 file system');
  await page.getByRole('button', { name: 'Back' }).click();
  await page.getByLabel('Path of the new drive').fill('/dev/nvme9n1');
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByRole('button', { name: 'Replace it' }).click();
  await expect(page.getByRole('dialog').getByText('Drive 6 is being rebuilt')).toBeVisible();
  mock.world.pools[0].rebuild.done_bytes = mock.world.pools[0].rebuild.total_bytes;
  await expect(page.getByText('Drive 6 has everything and is in service.')).toBeVisible();
});

test('the only drive of a pool without protection stays in service', async ({ page, open }) => {
  await open('/drives');
  const shelf = page.getByRole('group', { name: 'Drives of pool lab' });
  await shelf.getByRole('button', { name: /^drive 0/ }).click();
  await page.getByRole('button', { name: /Actions: actions for drive 0 of pool lab/ }).click();
  await expect(page.getByRole('menuitem', { name: 'Take out of service…' })).toContainText('The pool has no protection');
});

test('a scrub is started, shown as a job, paused and stopped', async ({ page, open, mock }) => {
  await open('/drives');
  await page.getByRole('button', { name: 'Scrub', exact: true }).last().click();
  const tray = page.locator('.tray');
  await expect(tray.getByRole('progressbar')).toContainText('Scrub of pool lab: compares segments');
  await page.getByRole('button', { name: 'Pause' }).click();
  await expect(page.getByText('Scrub, paused')).toBeVisible();
  expect(mock.world.pools[1].scrub.is_paused).toBe(true);
  await page.getByRole('button', { name: 'Stop…' }).click();
  await expect(page.getByRole('dialog')).toContainText('What it has not come to in pool lab is not checked');
  await page.getByRole('dialog').getByRole('button', { name: 'Stop it' }).click();
  await expect(tray).toContainText('cancelled');
});

test('a check is started and its job tells what it found', async ({ page, open, mock }) => {
  mock.world.slowMillis = 1000;
  await open('/drives');
  const check = page.getByRole('button', { name: 'Check', exact: true }).last();
  await check.click();
  await expect(page.locator('.tray').getByRole('progressbar')).toContainText('Check of pool lab');
  await expect(check).toHaveAttribute('aria-disabled', 'true');
  await expect(page.locator('.tray')).toContainText('no damage');
  await page.locator('.tray').getByRole('link', { name: 'All jobs' }).click();
  await expect(page.locator('tr', { hasText: 'Check of pool lab' }).first()).toContainText('done');
  expect(mock.exchanges.some(({ url }) => url.pathname.endsWith('/check') && url.search === '?wait=false')).toBe(true);
});

test('jobs tell how far they are and what came of them, and an import is ended by name', async ({ page, open, mock }) => {
  await open('/jobs');
  const running = (title: string) => page.locator('.with-actions', { hasText: title });
  await expect(running('Import of database archive')).toContainText('31 GiB of 96 GiB');
  await expect(running('Rebuild of drive main/3').getByRole('button', { name: 'End…' })).toHaveAttribute(
    'aria-disabled',
    'true',
  );
  await expect(page.locator('tr', { hasText: 'Proof of database staging' })).toContainText('NOT proven');
  await expect(page.locator('tr', { hasText: 'Import of database late' })).toContainText('What to do: import it again');
  await running('Import of database archive').getByRole('button', { name: 'End…' }).click();
  await expect(page.getByRole('dialog')).toContainText('Database archive is deleted with all that was copied into it');
  await expectAccessible(page);
  await page.getByLabel('Type archive to confirm').fill('archive');
  await page.getByRole('dialog').getByRole('button', { name: 'End it' }).click();
  await expect(page.locator('tr', { hasText: 'Import of database archive' })).toContainText('cancelled');
  expect(mock.requests).toContain('DELETE /v1/jobs/5f0c2a91-5');
});

test('charts are a file for other programs', async ({ page, open }) => {
  await open('/volumes/prod-data?range=day');
  await expect(page.locator('.no-data')).toHaveCount(0);
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  const file = await saved;
  expect(file.suggestedFilename()).toBe('volume-prod-data-day.csv');
  const lines = readFileSync(await file.path(), 'utf8').trimEnd().split('\n');
  expect(lines[0]).toMatch(/^time,reads_per_second,/);
  // A day in steps of five minutes, less the hours in which the mock did not run.
  expect(lines.length).toBeGreaterThan(200);
  expect(lines[1]).toMatch(/^\d{4}-\d\d-\d\dT[\d:]+Z,\d+\.\d{3},/);
});

test('what a guest may not do stays in its place, with the reason', async ({ page, open, mock }) => {
  mock.world.refused = ['database_clone', 'database_create', 'database_reset', 'database_url'];
  await open('/databases');
  await expect(page.getByRole('button', { name: 'Create' })).toHaveAttribute('aria-disabled', 'true');
  await page.getByRole('button', { name: 'Actions for database dev', exact: true }).click();
  await expect(page.getByRole('menuitem', { name: 'Reset…' })).toContainText('Only root may');
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'prod', exact: true }).click();
  await page.getByRole('button', { name: 'Clone…' }).click({ force: true });
  await expect(page.getByText('Only root may').first()).toBeVisible();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Copy the connection string' })).toHaveCount(0);
});

test('a form says what it lacks', async ({ page, open }) => {
  await open('/databases/dev');
  await page.getByRole('button', { name: /More: actions for database dev/ }).click();
  await page.getByRole('menuitem', { name: 'Delete…' }).click();
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Delete' })).toHaveAccessibleDescription('Type dev first.');
});

test('a volume is exported to a host that is let in', async ({ page, open, mock, seen }) => {
  // The host that an export names.
  seen.allowed.push(/status of 409/);
  await open('/hosts');
  await page.getByRole('button', { name: 'Let a host in' }).click();
  await page.getByLabel('Name', { exact: true }).fill('db9');
  await page.getByRole('button', { name: /Pool whose/ }).click();
  await page.getByRole('option', { name: 'main', exact: true }).click();
  await page.getByLabel('iSCSI name').fill('iqn.1993-08.org.debian:01:9');
  await page.getByLabel('CHAP user').fill('db9');
  await page.getByLabel('CHAP secret').fill('short');
  await expect(page.getByRole('button', { name: 'Let it in' })).toHaveAccessibleDescription(/missing or wrong/);
  await page.getByLabel('CHAP secret').fill('long-enough-now');
  await page.getByRole('button', { name: 'Let it in' }).click();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await page.getByRole('button', { name: 'Export a volume' }).click();
  await page.getByRole('dialog').getByRole('button', { name: /Volume/ }).click();
  await page.getByRole('option', { name: 'docs-copy', exact: true }).click();
  await page.getByText('Host db9 sees it').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Export', exact: true }).click();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  const row = page.getByRole('row', { name: /docs-copy/ });
  await expect(row).toContainText('db9');
  expect(JSON.stringify(mock.world.hosts)).not.toContain('long-enough-now');
  await page.getByRole('row', { name: /db9 iqn/ }).getByRole('button', { name: 'Delete…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the host' }).click();
  await expect(page.getByRole('dialog')).toContainText('docs-copy');
});

test("a host's secret is changed, and it proves nothing in the end", async ({ page, open, mock }) => {
  await open('/hosts');
  const row = page.getByRole('row', { name: /esx1 iqn/ });
  const dialog = page.getByRole('dialog');
  const choose = async (label: RegExp, option: string) => {
    await dialog.getByRole('button', { name: label }).click();
    await page.getByRole('option', { name: option, exact: true }).click();
  };
  await row.getByRole('button', { name: 'Change…' }).click();
  await expect(dialog).toContainText('2 sessions go on');
  await expect(dialog.getByRole('button', { name: 'Change it' })).toHaveAccessibleDescription(/missing or wrong/);
  await choose(/The host proves/, 'A new secret');
  await dialog.getByLabel('CHAP user').fill('esx2');
  await dialog.getByLabel('CHAP secret').fill('long-enough-now');
  await choose(/The array proves/, 'Nothing any more');
  await dialog.getByRole('button', { name: 'Change it' }).click();
  await expect(dialog).toHaveCount(0);
  await expect(row).not.toContainText('mutual');
  const host = () => mock.world.hosts.find((one: { name: string }) => one.name === 'esx1');
  expect(host().chap_user).toBe('esx2');
  expect(JSON.stringify(mock.world.hosts)).not.toContain('long-enough-now');
  await row.getByRole('button', { name: 'Change…' }).click();
  await choose(/The host proves/, 'Nothing any more');
  await dialog.getByRole('button', { name: 'Change it' }).click();
  await expect(dialog).toHaveCount(0);
  await expect(row).toContainText('none');
  expect(host().chap_user).toBeUndefined();
});

test('a client is cut off', async ({ page, open, mock }) => {
  await open('/clients');
  await page.locator('tr', { hasText: 'qemu-system' }).getByRole('button', { name: 'Cut off…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cut off' }).click();
  await expect(page.getByText('qemu-system-x86')).toHaveCount(0);
  expect(mock.requests).toContain('DELETE /v1/clients/12');
});

test('an alert is acknowledged, and stays so', async ({ page, open, mock }) => {
  await open('/');
  const alert = page.locator('.alert', { hasText: 'was given up' });
  await alert.getByRole('button', { name: /Acknowledge/ }).click();
  await expect(alert).toHaveCount(0);
  await page.reload();
  await expect(page.locator('.alert').first()).toBeVisible();
  await expect(alert).toHaveCount(0);
  mock.say('error', 'pool main', 'segment 812 checksum mismatch');
  await expect(page.locator('.alert', { hasText: 'segment 812' })).toBeVisible();
});

test('by keyboard alone: from the list into a menu, a dialog and back', async ({ page, open }) => {
  await open('/volumes');
  await page.getByRole('button', { name: 'Actions for volume mail' }).focus();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('menuitem', { name: 'Take a snapshot…' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('textbox', { name: 'Name', exact: true })).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Actions for volume mail' })).toBeFocused();
});

test('whether a database waits for the storage is told when somebody asks', async ({ page, open }) => {
  await open('/databases/prod');
  const panel = page.locator('section', { hasText: 'What its sessions wait for' });
  await panel.getByRole('button', { name: 'Look' }).click();
  await expect(panel).toContainText('6.40 sessions at work at a time: 61 % the storage, 28 % the processor');
  await expect(panel.locator('tbody tr')).toHaveCount(4);
});

test('a result of the lab leads to its experiments, and its report is a file', async ({ page, open }) => {
  await open('/lab');
  await page.getByRole('link', { name: 'All experiments of emc' }).click();
  await page.getByRole('link', { name: /IOPS of 8 KB/ }).click();
  await expect(page.getByText('21,400 (19,900 to 22,800)')).toBeVisible();
  await expect(page.getByText('not measured')).toBeVisible();
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save the report' }).click();
  expect((await saved).suggestedFilename()).toBe('headline.html');
});

test('an objective is set, changed and deleted on the page of a volume', async ({ page, open, mock }) => {
  await open('/volumes/docs');
  const panel = page.locator('.panel', { hasText: 'Objective of latency' });
  await expect(panel).toContainText('None is set');
  await panel.getByRole('button', { name: 'Set…' }).click();
  await page.getByLabel('99 of 100 requests below').fill('0');
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Set' })).toBeDisabled();
  await page.getByLabel('99 of 100 requests below').fill('1.5');
  await page.getByLabel('For how much of the time').fill('99');
  await expectAccessible(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Set' }).click();
  await expect(panel).toContainText('p99 of reads and writes below 1.5 ms, 99 % of 7 d');
  await expect(panel.getByRole('progressbar')).toHaveAttribute('aria-valuenow', '100');
  await panel.getByRole('button', { name: 'Delete…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(panel).toContainText('None is set');
  expect(mock.world.objectives.map((one: { name: string }) => one.name)).toEqual(['prod', 'mail']);
});

test('an objective tells how much may still be missed, or that it is used up', async ({ page, open }) => {
  await open('/databases/prod');
  const panel = page.locator('.panel', { hasText: 'Objective of latency' });
  await expect(panel).toContainText('2 min missed of 10 min permitted');
  await expect(panel.getByRole('progressbar')).toHaveAttribute('aria-valuenow', /^80\./);
  await open('/volumes/mail');
  await expect(panel).toContainText('used up');
  await expect(panel).toContainText('15 min missed of 10 min permitted');
});

test('marks stand on the charts of what they are about', async ({ page, open }) => {
  await open('/?range=hour');
  const line = page.locator('.chart').first().locator('.chart-mark', { hasText: 'version 4.2 goes live' });
  await line.hover();
  await expect(line.locator('span')).toBeVisible();
  await page.getByText(/marks on the time line/).click();
  await expect(page.locator('.mark-list')).toContainText('docs are moved');
  await expectAccessible(page);
  await open('/volumes/docs?range=hour');
  await expect(page.locator('.chart-mark', { hasText: 'docs are moved' }).first()).toBeAttached();
  await open('/databases/prod?range=hour');
  await expect(page.locator('.chart-mark', { hasText: 'version 4.2 goes live' }).first()).toBeAttached();
  await expect(page.locator('.chart-mark', { hasText: 'docs are moved' })).toHaveCount(0);
});
