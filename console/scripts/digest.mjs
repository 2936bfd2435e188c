// Writes dist/sources.json, or tells whether it is stale. README.md says how the digest is made.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const SOURCES = ['index.html', 'package-lock.json', 'package.json', 'public', 'src', 'tsconfig.json', 'vite.config.ts'];
const BUILT = ['app.css', 'app.js', 'favicon.svg', 'index.html'];

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

function filesBelow(path) {
  const found = [];
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const inner = join(path, entry.name);
    if (entry.isDirectory()) found.push(...filesBelow(inner));
    else if (entry.isFile()) found.push(inner);
  }
  return found;
}

function sources() {
  const all = SOURCES.flatMap((name) =>
    name.includes('.') ? [join(root, name)] : filesBelow(join(root, name)),
  );
  return all.map((path) => relative(root, path).split(sep).join('/')).sort(byBytes);
}

// By the bytes of the path, as Rust sorts: no locale, no UTF-16.
function byBytes(left, right) {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

function digest(names, folder) {
  const whole = createHash('sha256');
  for (const name of names) {
    whole.update(`${name}\0${sha256(readFileSync(join(folder, name)))}\n`);
  }
  return whole.digest('hex');
}

const dist = join(root, 'dist');
const made = {
  sources_sha256: digest(sources(), root),
  source_count: sources().length,
  built_sha256: digest(BUILT, dist),
};
const place = join(dist, 'sources.json');
if (process.argv[2] === 'write') {
  writeFileSync(place, `${JSON.stringify(made, null, 2)}\n`);
} else {
  const kept = JSON.parse(readFileSync(place, 'utf8'));
  for (const name of Object.keys(made)) {
    if (kept[name] !== made[name]) {
      console.error(`console/dist is stale: ${name} is ${kept[name]}, should be ${made[name]}; run npm run build`);
      process.exit(1);
    }
  }
}
