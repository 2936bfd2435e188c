// Writes src/api/schema.ts from the array's OpenAPI description, or tells that it is stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import openapiTypescript, { astToString } from 'openapi-typescript';

const console_ = join(dirname(fileURLToPath(import.meta.url)), '..');
const description = join(console_, '..', 'docs', 'reference', 'openapi.json');
const place = join(console_, 'src', 'api', 'schema.ts');
const head = '// Made by `npm run schema` from docs/reference/openapi.json. Do not edit.\n\n';
const made = head + astToString(await openapiTypescript(pathToFileURL(description)));
if (process.argv[2] === 'write') {
  writeFileSync(place, made);
} else if (readFileSync(place, 'utf8') !== made) {
  console.error('src/api/schema.ts is stale: docs/reference/openapi.json has changed; run npm run schema && npm run build');
  process.exit(1);
}
