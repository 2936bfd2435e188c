// Users: how one signs in, what one's role allows, and the page of users and tokens.
import { expect, test } from './fixture';
import { expectAccessible } from '../watch';

const PASSWORD = 'correct horse battery';

test('a user signs in with a password, sees who it is, and signs out', async ({ page, mock, seen }) => {
  seen.allowed.push(/status of 401/, /ERR_/);
  await page.goto(`${mock.origin}/console/volumes`);
  await expectAccessible(page);
  const submit = page.getByRole('button', { name: 'Sign in', exact: true });
  await expect(submit).toBeDisabled();
  await page.getByLabel('User', { exact: true }).fill('ada');
  await page.getByLabel('Password', { exact: true }).fill('not the password');
  await submit.click();
  await expect(page.getByRole('alert')).toContainText('the user or the password is wrong');
  await page.getByLabel('User', { exact: true }).fill('ada');
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Password', { exact: true }).press('Enter');
  await expect(page.getByRole('heading', { level: 1, name: 'Volumes' })).toBeVisible();
  await page.getByRole('button', { name: 'ada, admin: account' }).first().click();
  await expectAccessible(page);
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await expect(page.getByRole('heading', { name: 'Ashlar console' })).toBeVisible();
  // The array knows it, too.
  await expect.poll(() => mock.requests.includes('DELETE /v1/session')).toBe(true);
  expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
});

test('what a viewer may not do stays in its place, with the reason', async ({ page, open, mock }) => {
  mock.world.me = { caller: 'person', role: 'viewer', user: 'vera' };
  mock.world.refused = ['volume_create', 'volume_delete', 'pool_scrub', 'users_list', 'snapshots_delete'];
  await open('/volumes');
  const create = page.getByRole('button', { name: 'Create' });
  await expect(create).toHaveAttribute('aria-disabled', 'true');
  await expect(create).toHaveAccessibleDescription('Your role, viewer, does not allow this.');
  await page.getByRole('button', { name: 'Actions for volume docs', exact: true }).click();
  const item = page.getByRole('menuitem', { name: 'Delete…' });
  await expect(item).toHaveAttribute('aria-disabled', 'true');
  await expect(item).toContainText('Your role, viewer');
  await page.keyboard.press('Escape');
  await open('/drives');
  await expect(page.getByRole('button', { name: 'Scrub' }).first()).toHaveAttribute('aria-disabled', 'true');
  await open('/settings/access');
  await expect(page.getByText('Your role, viewer, does not allow this.')).toBeVisible();
  expect(mock.requests).not.toContain('GET /v1/users');
  await expectAccessible(page);
});

test('a user is added, gets another role, is kept out and deleted', async ({ page, open, mock }) => {
  await open('/settings/access');
  await page.getByRole('button', { name: 'Add a user' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('grace');
  await dialog.getByLabel('Password').fill('short');
  await expect(dialog.getByText('12 to 256 letters.')).toBeVisible();
  await expect(dialog.getByRole('button', { name: 'Add', exact: true })).toBeDisabled();
  await dialog.getByLabel('Password').fill(PASSWORD);
  await expectAccessible(page);
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  const row = page.locator('tr', { hasText: 'grace' });
  await expect(row).toContainText('viewer');
  const act = async (name: string) => {
    await row.getByRole('button', { name: 'Actions for user grace' }).click();
    await page.getByRole('menuitem', { name }).click();
  };
  await act('Change the role…');
  await dialog.getByRole('button', { name: /Role/ }).click();
  await page.getByRole('option', { name: /Operator/ }).click();
  await dialog.getByRole('button', { name: 'Change', exact: true }).click();
  await expect(row).toContainText('operator');
  await act('Keep it out');
  await expect(row).toContainText('disabled');
  await act('Delete…');
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
  await expect(row).toHaveCount(0);
  expect(mock.world.users.map(({ name }: { name: string }) => name)).toEqual(['ada', 'bob']);
});

test('the secret of a new token is shown once', async ({ page, open, mock }) => {
  await open('/settings/access');
  await page.getByRole('button', { name: 'Make a token' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('backup');
  await dialog.getByRole('button', { name: /For/ }).first().click();
  await page.getByRole('option', { name: /Snapshots and clones alone/ }).click();
  await dialog.getByRole('button', { name: 'Make it' }).click();
  await expect(dialog.getByText(/^ashlar_5f/)).toBeVisible();
  await expectAccessible(page);
  await dialog.getByRole('button', { name: 'Close' }).click();
  await expect(page.locator('tr', { hasText: 'backup' }).first()).toBeVisible();
  await expect(page.getByText(/^ashlar_5f/)).toHaveCount(0);
  const made = mock.world.apiTokens.find((one: { name: string }) => one.name === 'backup');
  expect([made.role, made.only]).toEqual(['viewer', 'snapshots']);
  await page.getByRole('button', { name: 'Actions for token backup' }).click();
  await page.getByRole('menuitem', { name: 'Delete…' }).click();
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
  await expect(page.getByRole('button', { name: 'Actions for token backup' })).toHaveCount(0);
});

test('one changes the own password, and a wrong one does not end the session', async ({ page, open, mock, seen }) => {
  seen.allowed.push(/status of 401/, /ERR_/);
  mock.world.me = { caller: 'person', role: 'viewer', user: 'vera' };
  await open('/settings');
  await page.getByRole('button', { name: 'Change your password…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('The one you have').fill('a wrong password');
  await dialog.getByLabel('New password').fill('another long password');
  await dialog.getByRole('button', { name: 'Change', exact: true }).click();
  await expect(dialog.getByRole('alert')).toContainText('the password is wrong');
  await dialog.getByLabel('The one you have').fill(PASSWORD);
  await dialog.getByRole('button', { name: 'Change', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'Ashlar console' })).toBeVisible();
});
