// Pictures of every page at both widths, for docs/console. The data is made up.
import { expect, test } from '../mock/fixture';
import { NARROW, PAGES, WIDE } from '../watch';

for (const [width, size] of Object.entries({ 1280: WIDE, 390: NARROW })) {
  test.describe(`${width} pixels`, () => {
    test.use({ viewport: size });
    for (const [name, path] of PAGES) {
      test(name, async ({ page, open }) => {
        await open(path);
        await expect(page.locator('.loading')).toHaveCount(0);
        // Charts take some samples first.
        await page.waitForTimeout(2500);
        const file = name.toLowerCase().replace(/[^a-z0-9]+/g, '-');
        await page.screenshot({ path: `../docs/console/${file}-${width}.png` });
      });
    }
  });
}
