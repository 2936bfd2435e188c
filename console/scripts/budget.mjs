// Fails when what a browser loads first is more than 300 KiB, compressed as gzip does at its default.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const LIMIT_BYTES = 300 * 1024;
const dist = join(dirname(fileURLToPath(import.meta.url)), '..', 'dist');
const sizes = ['index.html', 'app.js', 'app.css', 'favicon.svg'].map((name) => {
  const bytes = gzipSync(readFileSync(join(dist, name))).length;
  return [name, bytes];
});
const total = sizes.reduce((sum, [, bytes]) => sum + bytes, 0);
const kib = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
console.log(`first load ${kib(total)} gzip: ${sizes.map(([name, bytes]) => `${name} ${kib(bytes)}`).join(', ')}`);
if (total > LIMIT_BYTES) {
  console.error(`more than ${kib(LIMIT_BYTES)}: leave something out of the first load`);
  process.exit(1);
}
